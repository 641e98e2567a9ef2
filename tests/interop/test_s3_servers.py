"""What servers make of the requests that shardpack depends on, held against the table of docs/s3.md."""

import base64
import re
import struct
import zlib
from collections.abc import Callable, Iterator

import programs
import pytest
import s3_server
from botocore.exceptions import ClientError
from programs import PROJECT
from s3_server import Bucket

MIB = 1 << 20


def crc32(body: bytes) -> str:
    return base64.b64encode(struct.pack(">I", zlib.crc32(body))).decode()


def answer(call: Callable, *then: str, **arguments) -> str:
    """`then`, or the error."""
    try:
        call(**arguments)
    except ClientError as error:
        return f"{error.response['ResponseMetadata']['HTTPStatusCode']} {error.response['Error']['Code']}"
    return then[0]


def in_parts(bucket: Bucket, key: str, body: bytes, whole: str | None = None, twice: bool = False, **condition) -> None:
    """Uploads a body in parts of 5 MiB, with the checksum of each and one of the whole, `whole` or the right one."""
    place = {"Bucket": bucket.name, "Key": key}
    kind = {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}
    upload = bucket.client.create_multipart_upload(**place, **kind)["UploadId"]
    parts = []
    for number, start in enumerate(range(0, len(body), 5 * MIB), 1):
        part = body[start : start + 5 * MIB]
        summed = {"ChecksumAlgorithm": "CRC32", "ChecksumCRC32": crc32(part)}
        sent = bucket.client.upload_part(**place, UploadId=upload, PartNumber=number, Body=part, **summed)
        parts.append({"PartNumber": number, "ETag": sent["ETag"], "ChecksumCRC32": crc32(part)})
    for _ in range(1 + twice):
        bucket.client.complete_multipart_upload(
            **place,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
            ChecksumCRC32=whole or crc32(body),
            ChecksumType="FULL_OBJECT",
            **condition,
        )


LARGE = bytes(range(256)) * (6 * MIB // 256)


def over_what_is_there(bucket: Bucket) -> str:
    bucket.put("there", b"first")
    return answer(bucket.client.put_object, "overwritten", Bucket=bucket.name, Key="there", Body=b"2", IfNoneMatch="*")


def parts_over_what_is_there(bucket: Bucket) -> str:
    bucket.put("there", b"first")
    return answer(lambda: in_parts(bucket, "there", LARGE, IfNoneMatch="*"), "overwritten")


def over_a_deletion(bucket: Bucket) -> str:
    enabled = {"Status": "Enabled"}
    no = answer(bucket.client.put_bucket_versioning, "", Bucket=bucket.name, VersioningConfiguration=enabled)
    if no:
        return "no versions"
    bucket.put("there", b"first")
    bucket.client.delete_object(Bucket=bucket.name, Key="there")
    return answer(bucket.client.put_object, "written", Bucket=bucket.name, Key="there", Body=b"2", IfNoneMatch="*")


def wrong_sum(bucket: Bucket) -> str:
    wrong = {"ChecksumAlgorithm": "CRC32", "ChecksumCRC32": crc32(b"other")}
    return answer(bucket.client.put_object, "taken", Bucket=bucket.name, Key="new", Body=b"body", **wrong)


def wrong_sum_of_the_whole(bucket: Bucket) -> str:
    return answer(lambda: in_parts(bucket, "new", LARGE, whole=crc32(b"other")), "taken")


def told_by_head(bucket: Bucket) -> str:
    if (refused := answer(lambda: in_parts(bucket, "new", LARGE), "")) != "":
        return refused
    head = bucket.client.head_object(Bucket=bucket.name, Key="new", ChecksumMode="ENABLED")
    if head.get("ChecksumCRC32") == crc32(LARGE):
        return "that of the whole"
    return "none" if "ChecksumCRC32" not in head else "another"


def completed_twice(bucket: Bucket) -> str:
    return answer(lambda: in_parts(bucket, "new", LARGE, twice=True), "taken")


def another_version(bucket: Bucket) -> str:
    bucket.put("there", b"first")
    return answer(bucket.client.get_object, "given", Bucket=bucket.name, Key="there", IfMatch='"' + "0" * 32 + '"')


def uploads_of_a_prefix(bucket: Bucket) -> str:
    bucket.begin("prefix/one")
    found = bucket.client.list_multipart_uploads(Bucket=bucket.name, Prefix="prefix/")
    return "told" if found.get("Uploads") else "not told"


def uploads_of_a_key(bucket: Bucket) -> str:
    bucket.begin("prefix/one")
    found = bucket.client.list_multipart_uploads(Bucket=bucket.name, Prefix="prefix/one")
    return "told" if found.get("Uploads") else "not told"


def below_an_object(bucket: Bucket) -> str:
    bucket.put("a", b"above")
    return answer(bucket.client.put_object, "written", Bucket=bucket.name, Key="a/b", Body=b"below")


def line_break(bucket: Bucket) -> str:
    written = answer(bucket.client.put_object, "", Bucket=bucket.name, Key="lines/a\nb", Body=b"1")
    return written or ("written" if bucket.keys("lines") == ["lines/a\nb"] else "listed wrongly")


def begun_in_the_middle(bucket: Bucket) -> str:
    for name in "abcd":
        bucket.put(f"p/{name}", b"1")
    found = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix="p/", StartAfter="p/bb")
    names = [one["Key"] for one in found.get("Contents", [])]
    return "from there" if names == ["p/c", "p/d"] else f"{names}"


def colder_class(bucket: Bucket) -> str:
    put = {"Bucket": bucket.name, "Key": "cold", "Body": b"1", "StorageClass": "STANDARD_IA"}
    if refused := answer(bucket.client.put_object, "", **put):
        return refused
    return "kept" if bucket.head("cold").get("StorageClass") == "STANDARD_IA" else "ignored"


def encrypted(bucket: Bucket) -> str:
    put = {"Bucket": bucket.name, "Key": "sse", "Body": b"1", "ServerSideEncryption": "AES256"}
    if refused := answer(bucket.client.put_object, "", **put):
        return refused
    return "kept" if bucket.head("sse").get("ServerSideEncryption") == "AES256" else "ignored"


def tagged(bucket: Bucket) -> str:
    bucket.client.put_object(Bucket=bucket.name, Key="tagged", Body=b"1", Tagging="team=vision")
    asked = answer(bucket.client.get_object_tagging, "", Bucket=bucket.name, Key="tagged")
    return asked or ("kept" if bucket.tags("tagged") == {"team": "vision"} else "ignored")


# Row of the table → what finds out.
PROBES: dict[str, Callable[[Bucket], str]] = {
    "`If-None-Match: *` over an object": over_what_is_there,
    "the same, completing an upload": parts_over_what_is_there,
    "the same, over a deletion marker": over_a_deletion,
    "GET with `If-Match` of another version": another_version,
    "a wrong CRC-32 of a body": wrong_sum,
    "a wrong CRC-32 of a whole upload": wrong_sum_of_the_whole,
    "CRC-32 that HEAD tells of an upload": told_by_head,
    "an upload completed twice": completed_twice,
    "unfinished uploads of a prefix": uploads_of_a_prefix,
    "unfinished uploads of one key": uploads_of_a_key,
    "listing from a name in the middle": begun_in_the_middle,
    "a key `a/b` beside the object `a`": below_an_object,
    "a line break in a key": line_break,
    "`--storage-class STANDARD_IA`": colder_class,
    "`--sse AES256`": encrypted,
    "`--tagging`": tagged,
}


def table() -> dict[str, dict[str, str]]:
    """Row → server → what the page says."""
    page = (PROJECT / "docs/s3.md").read_text()
    lines = re.search(r"^\| asked \|.*?(?=\n\n)", page, re.M | re.S)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    servers = [name.split()[0].lower() for name in rows[0][1:]]
    return {row[0]: dict(zip(servers, row[1:], strict=True)) for row in rows[2:]}


@pytest.fixture(scope="module", params=["moto", pytest.param("minio", marks=pytest.mark.minio), "tests"])
def buckets(request, tmp_path_factory) -> Iterator[tuple[str, Callable[[str], Bucket]]]:
    """A server's name in the table, and what gives one of its buckets."""
    own = request.param == "tests"
    scratch = tmp_path_factory.mktemp(request.param)
    with s3_server.own(programs.s3_server()) if own else s3_server.run(request.param, scratch) as server:
        yield server.name, lambda name: Bucket(server, "bucket" if own else name, there=own)


@pytest.mark.parametrize("row", PROBES)
def test_the_table_says_what_the_server_does(buckets, row):
    server, bucket = buckets
    assert PROBES[row](bucket(f"bucket-{list(PROBES).index(row)}")) == table()[row][server]


def test_the_table_has_a_row_for_each_of_them():
    assert list(table()) == list(PROBES)
