//! What lies beside the shards of a dataset and is as valid in a copy of all of it: the plans that it was made by, reader indexes, and what
//! people wrote into files of ours.

use std::collections::{BTreeSet, HashMap};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::model::manifest::{IndexFile, Manifest, STATE};
use crate::publish::card::{CARD, render_card};
use crate::publish::readers::{NamedFile, files_of_dataset, files_of_shards, is_for_people};
use crate::state::claims::{claim, generations};
use crate::state::names::{claim_name, plan_file};
use crate::state::plans::load_id;
use crate::store::{Sink, at_once};
use crate::upkeep::copy::transfer::pass_object;

/// Copies the plans that a dataset was made by up to what is published, and last their claims; whether there are any.
///
/// A conversion goes on with a copy that has them as it would with the original, and a conversion of anything else is refused there from
/// now on.
pub(super) fn copy_plans(from: &dyn Sink, to: &dyn Sink, manifest: &Manifest) -> Result<bool> {
    let mut claims = Vec::new();
    let mut published = 0;
    for generation in generations(from)? {
        let Some(id) = claim(from, generation)? else {
            continue;
        };
        let stored = unless_damaged(load_id(from, &id))?;
        claims.push((generation, id));
        if stored.is_some_and(|stored| stored.digest == manifest.plan) {
            published = claims.len();
        }
    }
    // What was claimed after that is not published yet.
    claims.truncate(published);
    let ids: BTreeSet<&str> = claims.iter().map(|(_, id)| id.as_str()).collect();
    let plans = format!("{STATE}/plan");
    let there: HashMap<String, u64> = to.list(&plans)?.into_iter().collect();
    let mut todo = from.list(&plans)?;
    todo.retain(|object| {
        let is_of = plan_file(&object.0).is_some_and(|(id, _)| ids.contains(id));
        is_of && there.get(&object.0) != Some(&object.1)
    });
    at_once(
        from.requests().max(to.requests()).min(8),
        &todo,
        |(name, bytes)| pass_object(from, to, name, *bytes),
    )?;
    for (generation, _) in &claims {
        let name = claim_name(*generation);
        let text = from.get(&name)?.unwrap_or_default();
        if !to.put_if_absent(&name, &text)? {
            let what = format!("{to} belongs to a plan of its own: choose another destination");
            return Err(Error::new(Kind::Conflict, what));
        }
    }
    Ok(!claims.is_empty())
}

/// Copies the reader indexes that describe one shard each, and what people wrote where nobody did yet in the copy. Gives the reader indexes
/// of the whole dataset, whose names every snapshot has, and which are to be put after it.
pub(super) fn copy_files(
    from: &dyn Sink,
    to: &dyn Sink,
    manifest: &Manifest,
) -> Result<Vec<NamedFile>> {
    let depth = from.requests().max(to.requests());
    let of_shards = files_of_shards(manifest);
    let there: HashMap<String, u64> = match of_shards.is_empty() {
        true => HashMap::new(),
        false => to.list("")?.into_iter().collect(),
    };
    at_once(depth, &of_shards, |file| {
        // Whatever is not as it should be is made again from the records.
        match there.get(&file.name) == Some(&file.bytes) {
            true => Ok(()),
            false => intact(from, file)?.map_or(Ok(()), |(name, content)| to.put(&name, &content)),
        }
    })?;
    let wide = files_of_dataset(manifest);
    for name in wide
        .iter()
        .filter(|file| is_for_people(file))
        .map(|file| file.name.as_str())
    {
        let written = manifest.indexes.iter().find(|file| file.name == name);
        let is_ours = |content: &[u8]| {
            written.is_some_and(|file| file.crc32 == crc_text(crc32fast::hash(content)))
        };
        copy_of_people(from, to, name, &is_ours)?;
    }
    let card = render_card(manifest);
    copy_of_people(from, to, CARD, &|content| content == card.as_bytes())?;
    let wide = at_once(depth, &wide, |file| intact(from, file))?;
    Ok(wide.into_iter().flatten().collect())
}

/// A reader index, if it is what the manifest says.
fn intact(from: &dyn Sink, file: &IndexFile) -> Result<Option<NamedFile>> {
    let content = from.get(&file.name)?.filter(|content| {
        content.len() as u64 == file.bytes && crc_text(crc32fast::hash(content)) == file.crc32
    });
    Ok(content.map(|content| (file.name.clone(), content.to_vec())))
}

/// Copies a file that people completed, where nothing has its name.
fn copy_of_people(
    from: &dyn Sink,
    to: &dyn Sink,
    name: &str,
    is_ours: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    match from.get(name)? {
        Some(content) if !is_ours(&content) => to.put_if_absent(name, &content).map(|_| ()),
        _ => Ok(()),
    }
}
