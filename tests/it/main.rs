//! The binary from end to end, one module for each part of `src/` or verb it is about.

// Steps that fail, commands in between, containers.
mod faults;
mod servers;
mod stored_plan;
mod support;

// What is refused as a source or destination, and what odd names become.
mod scan;
// Tars and zips as directories: the same shards, whatever they are packed in.
mod archives;
// A source that changes between planning and packing, and destinations that cannot take the data.
mod store;
// Disks that containers share, mounts that lose their server, links that are turned.
mod mounts;
// Damaged samples: all listed, skipped only when asked for.
mod policy;
// The same source and options give the same bytes, whatever else differs.
mod plan;
// Interrupted and resumed runs.
mod resume;
// Datasets, and parts of them, at other places.
mod copy;
// What no snapshot names is removed, and nothing else.
mod gc;
// Runs that are killed at random moments, stand still, and meet each other.
mod kill;
// Runs that are stopped right before a named step while others publish.
mod hold;
// Inside a pod: reports, progress, deadlines, limits.
mod pod;
// Splits, label files, sidecars, globs.
mod labels;
// Tables of metadata beside the images.
mod metadata;
// Damage is found and named, at the level that promises it.
mod verify;
// Shards that somebody else made, and reader files that were there before.
mod adopt;
// One sample's whereabouts, and its bytes.
mod inspect;
// Samples, one a line.
mod ls;
// Flags, their environment twins, summaries, logs, help.
mod cli;
// What help shows, the words that people type, and where a value came from.
mod help;
// What a verb says at its end.
mod ends;
// How fast files and shards are read, and what that means.
mod bench;
// What a dry run says of time, requests, dollars and room.
mod cost;
// The manifest and its schema.
mod manifest;
// Which file may import what.
mod layers;
// S3 on both ends, and everything that can go wrong with it.
mod s3;
// Which server is talked to, through which proxy, and whom it trusts.
mod client;
// Whose credentials S3 gets, and what happens when they cannot be had for a moment.
mod credentials;
// S3 behind links of little bandwidth, and servers that take their time.
mod slow;
// `SHA256SUMS` and the plans' lists of samples: what is changed there is found and made again.
mod lists;
// Whatever is changed is found.
mod mutations;
// What is damaged or missing is made again.
mod repair;
// Sources that grow and change after they were published.
mod growth;
// Datasets that a later version of the program wrote.
mod later;
// Datasets and sources that were made to harm.
mod hostile;
// The same of archives.
mod hostile_archives;
// Sources that vanish, and long lists of what is at fault.
mod vanish;
// Every format and compression, reader indexes, and shards of others.
mod formats;
// ImageNet as it is handed out, and images without labels.
mod imagenet;
// No source is packed with labels that it may not have.
mod mislabelled;
// Memory is bounded whatever the files are.
mod memory;
// The examples of README.md and docs/.
mod docs;
// Datasets as sources, and parts of sources.
mod derived;
// Images that are there several times.
mod duplicates;
