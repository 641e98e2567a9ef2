//! The rooms of `src/`: who may import what, read from the files themselves, by the one table in `src/lib.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use crate::support::files;

/// Most lines of code in a file besides its tests, blank lines and comments.
const FILE_LINES: usize = 500;
/// Most lines of a function.
const FUNCTION_LINES: usize = 80;

/// Libraries that are seen in few places: files, or folders where the name ends with a slash.
const LIBRARIES: [(&str, &[&str]); 32] = [
    ("clap", &["cli/flags/"]),
    ("clap_complete", &["cli/flags/papers.rs"]),
    ("clap_mangen", &["cli/flags/papers.rs"]),
    ("signal_hook", &["base/signal.rs"]),
    (
        "parquet",
        &[
            "model/record/",
            "format/parquet/",
            "source/metadata/parquet/",
        ],
    ),
    ("rusqlite", &["publish/readers/sqlite.rs"]),
    ("prost", &["format/tfrecord/", "format/parquet/"]),
    ("crc_fast", &["format/tfrecord/"]),
    ("flate2", &["format/compress/", "store/archive/"]),
    ("rawzip", &["store/archive/zip.rs"]),
    ("image", &["base/image/"]),
    ("csv", &["source/labels/", "source/metadata/"]),
    ("getrandom", &["base/unique.rs"]),
    ("time", &["cli/settings/running.rs"]),
    ("aws_sdk_s3", &["store/s3/"]),
    ("aws_config", &["store/s3/"]),
    (
        "aws_credential_types",
        &["store/s3/credentials.rs", "store/s3/get/sign.rs"],
    ),
    ("aws_sigv4", &["store/s3/get/sign.rs"]),
    ("aws_smithy_checksums", &["store/s3/get/sums.rs"]),
    ("aws_smithy_xml", &["store/s3/get/refusal.rs"]),
    ("aws_types", &["store/s3/"]),
    ("aws_smithy_http_client", &["store/s3/"]),
    (
        "aws_smithy_runtime_api",
        &["store/s3/watch.rs", "store/s3/get/sign.rs"],
    ),
    ("http", &["store/s3/"]),
    ("http_body", &["store/s3/watch.rs"]),
    ("http_body_util", &["store/s3/get/"]),
    ("hyper", &["store/s3/get/exchange.rs"]),
    ("hyper_util", &["store/s3/proxy.rs", "store/s3/get/"]),
    ("rustls", &["store/s3/tls.rs", "store/s3/get/dial.rs"]),
    ("rustls_native_certs", &["store/s3/tls.rs"]),
    ("tokio_rustls", &["store/s3/get/"]),
    ("tokio", &["base/sync.rs", "store/s3/"]),
];

/// Where the file system is touched, each with its reason.
const FILE_SYSTEM: [(&str, &str); 7] = [
    ("store/local/", "the file system as source and sink"),
    ("cli/settings/", "files that flags name are read"),
    ("cli/file.rs", "files that flags name are written"),
    (
        "cli/verbs/summary.rs",
        "the kernel's account of this process",
    ),
    ("model/problems.rs", "the file of `--problems`"),
    ("plan/budget.rs", "how much memory there is"),
    ("store/s3/tls.rs", "certificates that the environment names"),
];

/// A Rust file below `src/`, without what is only compiled for tests.
struct Module {
    /// Its name below `src/`.
    file: String,
    /// Its place in the crate: `["store", "s3", "read"]`.
    path: Vec<String>,
    /// What it imports or names by path, from the crate's root on.
    names: BTreeSet<Vec<String>>,
    /// Types it declares.
    declares: BTreeSet<String>,
    /// What the names that it imports stand for.
    imported: BTreeMap<String, Vec<String>>,
    /// Types with an inherent `impl` here.
    impls: Vec<Vec<String>>,
    /// Paths of libraries: their first names.
    libraries: BTreeSet<String>,
    /// Functions with more lines than a function may have.
    long: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The rooms in order, with a sentence for each: the table of `src/lib.rs`.
fn rooms() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("lib.rs")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| {
        let (room, sentence) = row.split_once("/` | ").expect("a row `| `room/` | … |`");
        let sentence = sentence.trim_end_matches(" |");
        (room.to_owned(), sentence.to_owned())
    })
    .collect()
}

fn text_of(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// A file without its tests, which stand at its end.
fn code_of(file: &str) -> String {
    let text = text_of(file);
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    code.to_owned()
}

/// The Rust files; a page's style lies beside its module.
fn sources() -> Vec<String> {
    let root = root();
    let below = |path: PathBuf| {
        path.strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let mut found: Vec<String> = files(&root).into_iter().map(below).collect();
    // Tests that need the insides lie there too.
    found.retain(|file| {
        file.ends_with(".rs") && !file.ends_with("/tests.rs") && !file.starts_with("testing/")
    });
    found.sort();
    assert!(found.len() > 50, "{found:?}");
    found
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && text.split(['(', ',', ' ', ')']).any(|word| word == "test"))
    })
}

impl Module {
    fn read(file: &str) -> Self {
        let tree =
            syn::parse_file(&text_of(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut path: Vec<String> = file
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_owned)
            .collect();
        path.retain(|part| part != "mod" && part != "lib" && part != "main");
        let mut module = Self {
            file: file.to_owned(),
            path,
            names: BTreeSet::new(),
            declares: BTreeSet::new(),
            imported: BTreeMap::new(),
            impls: Vec::new(),
            libraries: BTreeSet::new(),
            long: Vec::new(),
        };
        module.visit_file(&tree);
        module
    }

    fn room(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// A path as the crate knows it; `None` for one of a library.
    fn resolve(&self, segments: &[String]) -> Option<Vec<String>> {
        let mut base = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => self.path.clone(),
            "super" => {
                let mut up = self.path.clone();
                up.pop();
                up
            }
            _ => return None,
        };
        for segment in &segments[1..] {
            match segment.as_str() {
                "super" => _ = base.pop(),
                "self" => {}
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    fn name(&mut self, segments: Vec<String>) {
        if segments.len() < 2 {
            return;
        }
        match self.resolve(&segments) {
            Some(path) => _ = self.names.insert(path),
            None => _ = self.libraries.insert(segments[0].clone()),
        }
    }

    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before);
                }
            }
            syn::UseTree::Glob(_) => self.name([before.as_slice(), &["*".to_owned()]].concat()),
            syn::UseTree::Name(name) => self.imports(before, &name.ident, &name.ident),
            syn::UseTree::Rename(name) => self.imports(before, &name.ident, &name.rename),
        }
    }

    fn imports(&mut self, before: &[String], name: &syn::Ident, known_as: &syn::Ident) {
        let path = [before, &[name.to_string()]].concat();
        if let Some(path) = self.resolve(&path) {
            self.imported.insert(known_as.to_string(), path);
        }
        self.name(path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, declared) = match item {
            syn::Item::Mod(item) => (&item.attrs, None),
            syn::Item::Fn(item) => (&item.attrs, None),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Use(item) => (&item.attrs, None),
            syn::Item::Const(item) => (&item.attrs, None),
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            self.declares.extend(declared.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        self.name(segments.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// What is in a macro is not parsed: paths in it are told by their colons.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let text = item.tokens.to_string().replace(" :: ", "::");
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            self.name(word.split("::").map(str::to_owned).collect());
        }
        visit::visit_macro(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            let segments = of.path.segments.iter();
            self.impls
                .push(segments.map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, item.block.brace_token.span.close());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, item.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, item);
    }
}

impl Module {
    fn measure(&mut self, signature: &syn::Signature, end: proc_macro2::Span) {
        let lines = end.end().line - signature.fn_token.span.start().line + 1;
        if lines > FUNCTION_LINES {
            let name = &signature.ident;
            self.long
                .push(format!("src/{}: `{name}` has {lines} lines", self.file));
        }
    }
}

impl Module {
    /// Whether this is the `mod.rs` of a folder with such a module.
    fn has_child(&self, name: &str) -> bool {
        self.file.ends_with("/mod.rs") && root().join(self.path.join("/")).join(name).exists()
    }
}

fn modules() -> Vec<Module> {
    sources().iter().map(|file| Module::read(file)).collect()
}

fn is_at(file: &str, places: &[&str]) -> bool {
    places.iter().any(|place| {
        let folder = place.strip_suffix('/');
        *place == file
            || folder.is_some_and(|folder| {
                file.starts_with(place) || file.strip_suffix(".rs") == Some(folder)
            })
    })
}

/// What is wrong with who imports what.
fn upwards(modules: &[Module]) -> Vec<String> {
    let rooms: Vec<String> = rooms().into_iter().map(|(room, _)| room).collect();
    let place = |room: &str| rooms.iter().position(|known| known == room);
    let mut wrong = Vec::new();
    for module in modules.iter().filter(|module| !module.path.is_empty()) {
        let Some(here) = place(module.room()) else {
            wrong.push(format!("src/{} is in no room of the table", module.file));
            continue;
        };
        for name in &module.names {
            match name.first().and_then(|room| place(room)) {
                Some(there) if there <= here => {}
                Some(_) => wrong.push(format!(
                    "src/{} names `{}`, of a later room",
                    module.file,
                    name.join("::")
                )),
                // The crate's root has nothing but rooms.
                None => wrong.push(format!("src/{} names `{}`", module.file, name.join("::"))),
            }
        }
    }
    wrong
}

/// Inherent `impl`s that stand in another room than their type.
fn far_impls(modules: &[Module]) -> Vec<String> {
    let mut wrong = Vec::new();
    for module in modules {
        for segments in &module.impls {
            let of = module.resolve(segments).or_else(|| {
                let first = &segments[0];
                let path = module.imported.get(first)?;
                Some([path.as_slice(), &segments[1..]].concat())
            });
            let near = match of {
                Some(path) => path.first().map(String::as_str) == Some(module.room()),
                None => module.declares.contains(&segments[0]),
            };
            if !near {
                wrong.push(format!("src/{}: impl {}", module.file, segments.join("::")));
            }
        }
    }
    wrong
}

/// Modules of a room that import each other. That a folder's `mod.rs` names what lies in the folder is no import.
fn circles(modules: &[Module]) -> Vec<String> {
    let known: BTreeSet<&[String]> = modules.iter().map(|m| m.path.as_slice()).collect();
    let mut graph: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for module in modules {
        let to = graph.entry(&module.path).or_default();
        for name in &module.names {
            // The longest part that is a module.
            let longest = (1..=name.len()).rev().find_map(|n| known.get(&name[..n]));
            if let Some(&other) = longest
                && !other.starts_with(&module.path)
            {
                to.insert(other);
            }
        }
    }
    // What imports nothing that is left can go; a circle stays.
    while let Some(free) = graph.iter().find(|(_, to)| to.is_empty()) {
        let free = *free.0;
        graph.remove(free);
        for to in graph.values_mut() {
            to.remove(free);
        }
    }
    // So can what nothing that is left imports: what remains are the circles alone.
    while let Some(free) = graph
        .keys()
        .find(|path| !graph.values().any(|to| to.contains(*path)))
        .copied()
    {
        graph.remove(free);
    }
    let text = |path: &[String]| path.join("/");
    graph
        .iter()
        .flat_map(|(from, to)| {
            to.iter()
                .map(move |to| format!("{} → {}", text(from), text(to)))
        })
        .collect()
}

fn none(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn a_room_imports_only_rooms_before_it() {
    none("imports go downwards only", upwards(&modules()));
}

#[test]
fn behaviour_stands_in_the_room_of_its_type() {
    none(
        "a later room adds functions or traits",
        far_impls(&modules()),
    );
}

#[test]
fn no_modules_import_each_other() {
    none("circles", circles(&modules()));
}

#[test]
fn one_import_or_impl_in_the_wrong_room_is_noticed() {
    let mut modules = modules();
    assert_eq!(upwards(&modules), [""; 0]);
    let units = modules
        .iter_mut()
        .find(|m| m.file == "base/units.rs")
        .unwrap();
    let inner: syn::File = syn::parse_str(
        "fn f() { let _ = format!(\"{}\", crate::store::absolute(\"x\")); }
         use super::super::model::recipe::Recipe;
         impl Recipe { fn g() {} }
         #[cfg(test)] mod tests { use crate::cli::run; }",
    )
    .unwrap();
    units.visit_file(&inner);
    assert_eq!(upwards(&modules).len(), 2, "{:?}", upwards(&modules));
    assert_eq!(far_impls(&modules), ["src/base/units.rs: impl Recipe"]);
    assert!(!circles(&modules).is_empty());
}

#[test]
fn the_map_is_the_same_wherever_it_is_shown() {
    let rooms = rooms();
    let found: BTreeSet<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(found.len() <= 16, "{found:?}");
    for (room, _) in &rooms {
        assert!(found.contains(room), "{room} is not there");
        let text = text_of(&format!("{room}/mod.rs"));
        let opening = text.lines().take_while(|line| line.starts_with("//!"));
        assert!(
            opening.count() >= 3,
            "src/{room}/mod.rs says too little of itself"
        );
    }
    let table: Vec<String> = rooms
        .iter()
        .map(|(room, sentence)| format!("| `{room}/` | {sentence} |"))
        .collect();
    let project = root().parent().unwrap().to_owned();
    for place in ["docs/architecture.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(project.join(place)).unwrap();
        assert!(
            text.contains(&table.join("\n")),
            "{place} does not have the table of src/lib.rs:\n{}",
            table.join("\n")
        );
    }
}

#[test]
fn files_and_functions_are_of_a_size_that_can_be_read() {
    let mut wrong = Vec::new();
    for file in sources() {
        let code = code_of(&file);
        let lines = code
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
            .count();
        if lines > FILE_LINES {
            wrong.push(format!("src/{file} has {lines} lines of code"));
        }
    }
    wrong.extend(modules().into_iter().flat_map(|module| module.long));
    none(
        &format!("at most {FILE_LINES} and {FUNCTION_LINES} lines"),
        wrong,
    );
}

#[test]
fn libraries_are_seen_where_they_belong() {
    for module in modules() {
        for (library, places) in LIBRARIES {
            // A module of ours may have a library's name.
            let ours = module.imported.contains_key(library) || module.has_child(library);
            let seen = module.libraries.contains(library) && !ours;
            assert!(
                !seen || is_at(&module.file, places),
                "src/{} sees `{library}`: it belongs in {places:?}",
                module.file
            );
        }
    }
}

#[test]
fn the_file_system_is_touched_where_it_belongs() {
    let mut needed: BTreeSet<&(&str, &str)> = BTreeSet::new();
    for file in sources() {
        let code = code_of(&file);
        let lines = code.lines();
        let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
        let code: String = lines.collect();
        if code.contains("std::fs") || code.contains("File::open") || code.contains("OpenOptions") {
            let place = FILE_SYSTEM.iter().find(|(place, _)| is_at(&file, &[place]));
            assert!(place.is_some(), "src/{file} touches the file system");
            needed.extend(place);
        }
    }
    assert_eq!(needed.len(), FILE_SYSTEM.len(), "only these do: {needed:?}");
}

#[test]
fn nothing_but_the_verbs_prints() {
    for file in sources() {
        let code = code_of(&file);
        for word in ["println!", "eprintln!", "print!(", "dbg!"] {
            let found = code
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && line.contains(word));
            assert!(!found, "src/{file} has `{word}`");
        }
        let stdout = code.contains("stdout()");
        assert!(
            !stdout || file.starts_with("cli/"),
            "src/{file} writes to stdout"
        );
    }
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    for file in sources() {
        assert!(text_of(&file).starts_with("//! "), "src/{file}");
    }
}
