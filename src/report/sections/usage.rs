//! How it was made, how it is read, and by what it is known.

use crate::base::text::quoted;
use crate::report::dataset::Dataset;
use crate::report::html::lines;
use crate::report::page::Page;
use crate::report::run::Run;

/// Characters of a command at most.
const COMMAND: usize = 2000;

/// Writes the command line of the run, the lines of Python that read the dataset, and the checksum of its manifest.
pub(in crate::report) fn write(page: &mut Page, dataset: Option<&Dataset>, run: Option<&Run>) {
    let setup = run.and_then(|run| run.setup.as_ref());
    let command = setup.and_then(|setup| setup.command.as_ref());
    if dataset.is_none() && command.is_none() {
        return;
    }
    page.section("", "How it is made and read");
    if let Some(command) = command {
        page.says("The command of this run:");
        pre(page, command);
    }
    if let Some(dataset) = dataset {
        if let Some(reading) = &dataset.reading {
            page.says("Reading it, with the names of the shards from the manifest:");
            pre(page, reading);
        }
        page.says("Whether it is still the same is said by the SHA-256 of its manifest.json, which has the checksums of everything else:");
        pre(page, &dataset.digest);
    }
    page.out.raw("</section>");
}

pub(in crate::report) fn pre(page: &mut Page, content: &str) {
    page.out
        .put(format_args!("<pre>{}</pre>", lines(content, COMMAND)));
}

/// The command that makes what is damaged again.
pub(in crate::report) fn repair(page: &mut Page, destination: &str, source: Option<&str>) {
    page.says("This makes it again, byte for byte, from the images it was made of:");
    let source = source.map_or("SRC".to_owned(), quoted);
    let command = format!("shardpack repair {} --source {source}", quoted(destination));
    pre(page, &command);
}
