//! ImageNet as it is handed out: official names, unpacked, Kaggle's tree; and images without labels.

use serde_json::json;

use crate::archives::{convert, shards};
use crate::s3::{at, upload};
use crate::support::{Dataset, Output, members, picture, run, write};
use shardpack_fixtures::archives::{Dialect, ImageNet, Tar, ZipOptions, gzip, zip};
use shardpack_fixtures::s3_server::Server;

/// `ILSVRC2012_ID`s of all validation images, from the program's own table.
fn truth() -> Vec<usize> {
    let packed = include_bytes!("../../src/source/imagenet/validation.bin");
    let bit = |bit: usize| usize::from(packed[bit / 8] >> (bit % 8) & 1);
    let id = |n: usize| 1 + (0..10).map(|i| bit(n * 10 + i) << i).sum::<usize>();
    (0..50_000).map(id).collect()
}

/// The development kit's file.
fn ground_truth() -> String {
    truth().iter().map(|id| format!("{id}\n")).collect()
}

fn val(number: usize) -> String {
    format!("ILSVRC2012_val_{number:08}.JPEG")
}

fn test(number: usize) -> String {
    format!("ILSVRC2012_test_{number:08}.JPEG")
}

/// Three classes, four validation images and two test images, in these directories.
fn imagenet(train: &str, validation: &str, test_images: &str) -> Dataset {
    let mut data = Dataset::new();
    for wnid in ["n01440764", "n01751748", "n15075141"] {
        for number in 1..3 {
            data = named(
                data,
                &format!("{train}/{wnid}"),
                &format!("{wnid}_{number}.JPEG"),
            );
        }
    }
    for number in [3, 1, 2, 50_000] {
        data = named(data, validation, &val(number));
    }
    for number in 1..3 {
        data = named(data, test_images, &test(number));
    }
    data
}

/// Adds a picture whose content goes by its name alone, wherever it lies.
fn named(data: Dataset, directory: &str, name: &str) -> Dataset {
    let content = crate::support::picture(name);
    data.file(format!("{directory}/{name}"), content)
}

/// The fields of each test sample.
fn test_fields(output: &Output) -> Vec<String> {
    let shard = output.path.join("data/test-00000.tar");
    members(&shard)
        .into_iter()
        .map(|member| member.field)
        .collect()
}

#[test]
fn imagenet_in_its_official_names_comes_out_as_from_the_unpacked_tree() {
    let official = imagenet(
        "ILSVRC2012_img_train",
        "ILSVRC2012_img_val",
        "ILSVRC2012_img_test_v10102019/test",
    )
    .file(
        "ILSVRC2012_devkit_t12/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
        ground_truth(),
    );
    let output = official.convert(&[]);
    output.run.says(&[
        "layout    ImageNet, official directories: train 3 of 1,000 classes, 6 of 1,281,167 images, val 4 of 50,000 images by the labels \
         built in, with which the development kit agrees, test 2 of 100,000 images without labels, labels count all 1,000 classes",
        "classes   1,000: n01440764 … n15075141",
        "splits    test 2, train 6, val 4",
    ]);
    assert_eq!(output.member("val/ILSVRC2012_val_00000001", "cls"), b"65");
    assert_eq!(output.member("train/n01751748/n01751748_1", "cls"), b"65");
    assert_eq!(output.member("train/n15075141/n15075141_1", "cls"), b"999");
    assert_eq!(test_fields(&output), ["jpg", "jpg"]);
    let manifest = output.manifest();
    assert_eq!(manifest["recipe"]["layout"], "imagenet");
    assert_eq!(manifest["classes"].as_array().unwrap().len(), 1000);
    assert_eq!(manifest["class_texts"][65], "sea snake");
    assert_eq!(output.row("test/ILSVRC2012_test_00000001")["label"], -1);
    let source = official.source();
    output
        .verify(&["--level", "source", "--source", source.to_str().unwrap()])
        .exits(0);
    official
        .convert_to(&output.path, &[])
        .exits(0)
        .says(&["up to date"]);

    let unpacked = imagenet("train", "val", "test");
    let same = unpacked.convert(&[]);
    assert_eq!(same.tars(), output.tars());
    same.run.says(&["layout    ImageNet, unpacked: "]);
    // Left out by the name that it has, and by the one that counts.
    for glob in ["test", "ILSVRC2012_img_test*"] {
        let output = official.convert(&["--exclude", glob]);
        let splits = output.manifest()["splits"].as_array().unwrap().len();
        assert_eq!(splits, 2, "{glob}");
    }
    let nested = imagenet(
        "ILSVRC2012_img_train/train",
        "ILSVRC2012_img_val/val",
        "test",
    );
    assert_eq!(nested.convert(&[]).tars(), output.tars());
    // The same shards as from class directories and a label file, said by hand.
    let rows: String = (1..=4)
        .map(|n| if n == 4 { 50_000 } else { n })
        .map(|n| format!("{} {}\n", val(n), class_of(n)))
        .collect();
    let labels = unpacked.place("labels");
    crate::support::write(&labels, rows.as_bytes());
    let synsets = unpacked.place("synsets");
    crate::support::write(&synsets, sorted_synsets().join("\n").as_bytes());
    let flags = [
        "--labels",
        labels.to_str().unwrap(),
        "--synsets",
        synsets.to_str().unwrap(),
        "--exclude",
        "test",
    ];
    let mut expected = output.tars();
    expected.retain(|name, _| !name.contains("test"));
    assert_eq!(unpacked.convert(&flags).tars(), expected);
}

/// The synsets by id.
fn synsets() -> Vec<&'static str> {
    let table = include_str!("../../src/source/imagenet/synsets.tsv");
    let wnid = |line: &'static str| line.split('\t').nth(1).unwrap();
    table.lines().skip(1).map(wnid).collect()
}

fn sorted_synsets() -> Vec<&'static str> {
    let mut sorted = synsets();
    sorted.sort_unstable();
    sorted
}

/// The class of a validation image.
fn class_of(number: usize) -> &'static str {
    synsets()[truth()[number - 1] - 1]
}

#[test]
fn a_part_of_imagenet_is_imagenet() {
    let mut data = Dataset::new();
    for number in [2, 1] {
        data = named(data, ".", &val(number));
    }
    let output = data.convert(&[]);
    assert_eq!(output.member("ILSVRC2012_val_00000001", "cls"), b"65");
    assert_eq!(output.manifest()["splits"][0]["name"], "val");
    // Classes alone are an ImageFolder, whose labels count what is there.
    let classes = named(
        named(Dataset::new(), "n01751748", "a.JPEG"),
        "n15075141",
        "b.JPEG",
    );
    assert_eq!(
        classes.convert(&[]).manifest()["classes"],
        json!(["n01751748", "n15075141"])
    );
    let train = named(Dataset::new(), "ILSVRC2012_img_train/n15075141", "b.JPEG");
    let output = train.convert(&[]);
    output
        .run
        .says(&["labels count the classes that are there"]);
    assert_eq!(output.member("train/n15075141/b", "cls"), b"0");
}

#[test]
fn imagenet_that_contradicts_itself_is_refused() {
    let truth = ground_truth();
    let other = format!("491{}", &truth[3..]);
    for (truth, what) in [
        (other.as_str(), "line 1 is 491, expected 490"),
        ("490\n", "line 2 is missing"),
    ] {
        let data = imagenet("train", "val", "test")
            .file("devkit/ILSVRC2012_validation_ground_truth.txt", truth);
        data.refuses(&[], 3, &[what, "ILSVRC2012_validation_ground_truth.txt"]);
    }
    let data = named(imagenet("train", "val", "test"), "extra", "x.jpg");
    data.refuses(&[], 3, &["images lie beside its splits, in `extra`"]);
    assert_eq!(
        data.convert(&["--exclude", "extra"]).manifest()["samples"],
        12
    );
    let data = named(
        imagenet("ILSVRC2012_img_train", "val", "test"),
        "train/n01440764",
        "x.jpg",
    );
    data.refuses(&[], 3, &["`ILSVRC2012_img_train` and `train`", "--exclude"]);
    let data = named(
        imagenet("train", "ILSVRC2012_img_val", "test"),
        "ILSVRC2012_img_val",
        "x.JPEG",
    );
    data.refuses(&[], 3, &["x.JPEG: no name of a validation image"]);
    let data = named(imagenet("train", "val", "test"), "val/n01440764", &val(5));
    data.refuses(&[], 3, &["in the directory of another class"]);
    let data = named(imagenet("train", "val", "test"), "train/zebra", "x.jpg");
    data.refuses(
        &["--layout", "imagenet"],
        3,
        &["no synsets of ImageNet (`zebra`)"],
    );
    data.refuses(&[], 3, &["images lie directly in `test`", "--labels FILE"]);
    let data = Dataset::new().class("cat", 2);
    data.refuses(
        &["--layout", "imagenet"],
        3,
        &["no ImageNet here", "ILSVRC2012_img_train"],
    );
    data.refuses(&["--layout", "kaggle"], 3, &["`Data/CLS-LOC`"]);
    data.refuses(
        &["--layout", "imagenet", "--split", "train=cat"],
        2,
        &["its splits are known"],
    );
    data.refuses(
        &["--layout", "imagenet", "--labels", "x"],
        2,
        &["its labels are built in"],
    );
}

/// Kaggle's tree below a directory.
fn kaggle(above: &str, solution: &str) -> Dataset {
    let images = |split: &str| format!("{above}ILSVRC/Data/CLS-LOC/{split}");
    imagenet(&images("train"), &images("val"), &images("test"))
        .file(format!("{above}LOC_val_solution.csv"), solution)
        .file(
            format!("{above}LOC_synset_mapping.txt"),
            "n01440764 tench\n",
        )
        .file(
            format!("{above}ILSVRC/Annotations/CLS-LOC/val/x.xml"),
            "<a/>",
        )
        .file(format!("{above}ILSVRC/ImageSets/CLS-LOC/val.txt"), "x 1\n")
}

#[test]
fn kaggles_tree_is_recognised_from_any_level() {
    let row = |n: usize| format!("ILSVRC2012_val_{n:08},{} 1 2 3 4 \n", class_of(n));
    let solution = format!("ImageId,PredictionString\n{}{}", row(1), row(50_000));
    let expected = imagenet("train", "val", "test").convert(&[]).tars();
    let data = kaggle("", &solution);
    let output = data.convert(&[]);
    assert_eq!(output.tars(), expected);
    output.run.says(&[
        "ImageNet, Kaggle's tree: train 3 of",
        "with which LOC_val_solution.csv agrees",
    ]);
    assert_eq!(output.manifest()["recipe"]["layout"], "kaggle");
    let source = data.source();
    output
        .verify(&["--level", "source", "--source", source.to_str().unwrap()])
        .exits(0);
    for level in ["ILSVRC", "ILSVRC/Data", "ILSVRC/Data/CLS-LOC"] {
        let destination = data.fresh();
        let mut command = crate::support::shardpack(&["convert"]);
        let run = crate::support::run(command.arg(source.join(level)).arg(&destination));
        run.exits(0).says(&["layout    ImageNet, "]);
        let tars = crate::support::digests(&destination.join("data"));
        assert!(tars.values().eq(expected.values()), "{level}");
    }
    let nested = kaggle("imagenet-object-localization-challenge/", &solution);
    assert_eq!(nested.convert(&[]).tars(), expected);
    let wrong = format!(
        "ImageId,PredictionString\nILSVRC2012_val_00000001,{} 1 2 3 4\n",
        class_of(2)
    );
    kaggle("", &wrong).refuses(
        &[],
        3,
        &["LOC_val_solution.csv: line 2", "expected `n01751748`"],
    );
}

#[test]
fn images_without_labels_have_none_in_any_format() {
    let data = Dataset::new()
        .pictures(&["00000/a.jpg", "00000/b.jpg", "00001/c.jpg", "d.jpg"])
        .file("00000/a.txt", "a caption")
        .file("00000/b.txt", "another")
        .file("00001/c.txt", "a third")
        .file("d.txt", "a fourth");
    data.refuses(&[], 3, &["d.jpg"]);
    let source = data.source();
    let source = ["--level", "source", "--source", source.to_str().unwrap()];
    for format in ["wds", "tfrecord", "parquet"] {
        let output = data.convert(&["--labels", "none", "--format", format]);
        output
            .run
            .says(&["layout    flat: images without classes", "classes   none"]);
        let manifest = output.manifest();
        assert_eq!(
            (&manifest["samples"], &manifest["classes"]),
            (&json!(4), &json!([]))
        );
        assert_eq!(manifest["recipe"]["layout"], "flat");
        assert_eq!(output.row("00000/a")["label"], -1, "{format}");
        output.verify(&source).exits(0);
        data.convert_to(&output.path, &["--layout", "flat", "--format", format])
            .exits(0)
            .says(&["up to date"]);
    }
    let output = data.convert(&["--layout", "flat", "--add-json"]);
    let text = output.member("00000/a", "json");
    let text: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(text["label"], json!(null));
    let fields: Vec<_> = members(&output.shards()[0])
        .into_iter()
        .map(|m| m.field)
        .collect();
    assert!(!fields.contains(&"cls".to_owned()), "{fields:?}");
    assert_eq!(output.member("d", "txt"), b"a fourth");
    data.refuses(
        &["--layout", "flat", "--labels", "x"],
        2,
        &["have no labels"],
    );
    data.refuses(
        &["--layout", "imagefolder", "--labels", "none"],
        2,
        &["drop one of them"],
    );
}

#[test]
fn a_bucket_is_recognised_as_a_directory_is() {
    let server = Server::start();
    let truth = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt";
    let data = imagenet(
        "ILSVRC2012_img_train",
        "ILSVRC2012_img_val",
        "ILSVRC2012_img_test",
    )
    .file(truth, ground_truth());
    upload(&server, &data.source(), "imagenet");
    let destination = data.fresh();
    let mut command = at(&server, &["convert", "s3://bucket/imagenet"]);
    let run = crate::support::run(command.arg(&destination));
    run.exits(0)
        .says(&["with which the development kit agrees"]);
    let tars = crate::support::digests(&destination.join("data"));
    assert!(tars.values().eq(data.convert(&[]).tars().values()));

    let told = Dataset::new().pictures(&["1.jpg", "2.jpg"]).file(
        "metadata.csv",
        "file_name,label,text\n1.jpg,dog,one\n2.jpg,cat,two\n",
    );
    upload(&server, &told.source(), "told");
    let destination = told.fresh();
    let mut command = at(&server, &["convert", "s3://bucket/told"]);
    crate::support::run(command.arg(&destination)).exits(0);
    let tars = crate::support::digests(&destination.join("data"));
    assert!(tars.values().eq(told.convert(&[]).tars().values()));
    let mut command = at(&server, &["verify", destination.to_str().unwrap()]);
    let level = ["--level", "source", "--source", "s3://bucket/told"];
    crate::support::run(command.args(level)).exits(0);
}

/// A picture of each class, some of the validation set, and the class of each of those.
fn small_imagenet() -> ImageNet {
    let (synsets, truth) = (synsets(), truth());
    assert_eq!(synsets.len(), 1000);
    let mut imagenet = ImageNet::default();
    for wnid in synsets {
        let name = (wnid.to_owned(), 7);
        imagenet.train.insert(name, picture(wnid));
    }
    for number in 1..=12 {
        let id = u32::try_from(truth[number - 1]).unwrap();
        imagenet.val.push((picture(&val(number)), id));
    }
    imagenet
}

#[test]
fn the_official_archives_and_kaggles_zip_make_the_shards_of_the_labelled_tree() {
    let (imagenet, synsets) = (small_imagenet(), synsets());
    let flags = ["--shards", "2"];
    // As people unpack and label it by hand.
    let mut tree = imagenet
        .train_files()
        .into_iter()
        .map(|(path, content)| (format!("train/{path}"), content))
        .collect::<Vec<_>>();
    let (mut list, mut solution) = (
        String::from("image,label\n"),
        String::from("ImageId,PredictionString\n"),
    );
    for (number, (content, id)) in (1..).zip(&imagenet.val) {
        let (name, wnid) = (val(number), synsets[*id as usize - 1]);
        list.push_str(&format!("{name},{wnid}\n"));
        let stem = name.trim_end_matches(".JPEG");
        solution.push_str(&format!("{stem},{wnid} 1 2 30 40 {wnid} 5 6 7 8\n"));
        tree.push((format!("val/{name}"), content.clone()));
    }
    let mut data = Dataset::new();
    for (path, content) in &tree {
        data = data.file(path, content);
    }
    let labels = data.place("labels.csv");
    write(&labels, list.as_bytes());
    let by_hand = [
        "--labels",
        labels.to_str().unwrap(),
        "--layout",
        "imagefolder",
    ];
    let by_hand = data.convert(&[&flags[..], &by_hand].concat());
    assert_eq!(by_hand.row("val/ILSVRC2012_val_00000001")["label"], 65);
    let expected = shards(&by_hand.path);

    let mut archives = imagenet.archives();
    archives.remove(ImageNet::TEST);
    let mut devkit = Tar::new(Dialect::Gnu);
    let place = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt";
    devkit.file(place, ground_truth().as_bytes());
    archives.insert(ImageNet::DEVKIT.to_owned(), gzip(&devkit.finish()));
    let official = data.place("official");
    for (name, content) in archives {
        write(&official.join(name), &content);
    }
    let out = data.fresh();
    convert(&official, &out, &flags).exits(0).says(&[
        "ImageNet, official archives: train 1,000 classes",
        "with which the development kit agrees",
    ]);
    assert_eq!(shards(&out), expected, "official archives");

    let server = Server::start();
    upload(&server, &official, "imagenet");
    let out = data.fresh();
    let mut command = at(&server, &["convert", "s3://bucket/imagenet"]);
    run(command.arg(&out).args(flags)).exits(0);
    assert_eq!(shards(&out), expected, "official archives in a bucket");

    let mut files: Vec<(String, Vec<u8>)> = tree
        .into_iter()
        .map(|(path, content)| (format!("ILSVRC/Data/CLS-LOC/{path}"), content))
        .collect();
    files.push(("LOC_val_solution.csv".to_owned(), solution.into_bytes()));
    let entries: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), &content[..]))
        .collect();
    let options = ZipOptions {
        deflated: true,
        zip64: true,
        ..ZipOptions::default()
    };
    let kaggle = data.place("imagenet-object-localization-challenge.zip");
    write(&kaggle, &zip(&entries, options));
    let out = data.fresh();
    convert(&kaggle, &out, &flags)
        .exits(0)
        .says(&["Kaggle's tree", "with which LOC_val_solution.csv agrees"]);
    assert_eq!(shards(&out), expected, "Kaggle's zip");
}
