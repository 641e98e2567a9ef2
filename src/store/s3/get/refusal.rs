//! What a server says instead of an object.

use std::time::Duration;

use aws_smithy_xml::decode::{Document, XmlDecodeError, try_data};
use http::{HeaderMap, StatusCode};

use crate::store::s3::message::short;
use crate::store::s3::trouble::{Cause, RequestError};

/// An answer that is not an object: its status, what its headers say, and the words of its body.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> RequestError {
    let (code, message) = words(body).unwrap_or_default();
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let mut trouble = RequestError::new(Cause::Answer, short(&message));
    trouble.status = status.as_u16();
    trouble.code = short(&code);
    trouble.wait = text("retry-after")
        .and_then(|seconds| seconds.parse().ok())
        .map(Duration::from_secs);
    trouble.region = text("x-amz-bucket-region").map(short);
    trouble.with_region_of_message()
}

/// Code and message of S3's XML; none of another text, such as a proxy's page.
fn words(body: &[u8]) -> Result<(String, String), XmlDecodeError> {
    let text = std::str::from_utf8(body).map_err(XmlDecodeError::unhandled)?;
    let mut document = Document::new(text);
    let mut root = document.root_element()?;
    let (mut code, mut message) = (String::new(), String::new());
    while let Some(mut tag) = root.next_tag() {
        match tag.start_el().local() {
            "Code" => code = try_data(&mut tag)?.into_owned(),
            "Message" => message = try_data(&mut tag)?.into_owned(),
            _ => {}
        }
    }
    Ok((code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, headers: &[(&'static str, &str)], body: &str) -> RequestError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        refusal(StatusCode::from_u16(status).unwrap(), &map, body.as_bytes())
    }

    #[test]
    fn an_answer_of_s3_has_a_code_and_a_message() {
        let trouble = refused(
            400,
            &[("retry-after", "7")],
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error xmlns=\"x\"><Code>AuthorizationHeaderMalformed</Code>\
             <Message>a &lt;region&gt; is wrong; expecting 'eu-west-1'</Message><RequestId>1</RequestId></Error>",
        );
        assert_eq!(trouble.status, 400);
        assert_eq!(trouble.code, "AuthorizationHeaderMalformed");
        assert_eq!(
            trouble.message,
            "a <region> is wrong; expecting 'eu-west-1'"
        );
        assert_eq!(trouble.region.as_deref(), Some("eu-west-1"));
        assert_eq!(trouble.wait, Some(Duration::from_secs(7)));
    }

    #[test]
    fn an_answer_of_somebody_else_has_a_status() {
        for body in ["", "<html><body>no</body>", "no"] {
            let trouble = refused(502, &[("x-amz-bucket-region", "eu-west-3")], body);
            assert_eq!((trouble.status, trouble.code.as_str()), (502, ""), "{body}");
            assert_eq!(trouble.region.as_deref(), Some("eu-west-3"));
        }
    }
}
