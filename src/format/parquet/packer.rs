//! Writes Parquet shards: every image as a page when it comes, all else when its row group ends.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};

use crate::base::error::{Error, Kind, Result};
use crate::base::image::image_field;
use crate::format::parquet::group::{Group, WaitingField, end_group, failed, spot};
use crate::format::parquet::pages::{PageIndexes, page_start};
use crate::format::parquet::schema::{base, huggingface, schema};
use crate::format::parquet::tail::{Tail, track};
use crate::format::{About, Body, LateField, Out, Packer, PlacedSample, Spot};
use crate::model::recipe::Names;
use crate::model::record::FieldRecord;

const MAGIC: &[u8; 4] = b"PAR1";

/// Writes one shard.
pub(super) struct ParquetPacker<'a> {
    names: &'a Names,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    rows: usize,
    group: Group,
    groups: Vec<RowGroupMetaData>,
    indexes: PageIndexes,
    late: Vec<LateField>,
    /// Whether all that the footer says is known.
    is_known: bool,
}

impl<'a> ParquetPacker<'a> {
    /// Writes rows with a column for each of these sidecars.
    pub(super) fn new(names: &'a Names) -> Result<Self, ParquetError> {
        let schema = schema(names)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(true)
            .set_created_by("shardpack".to_owned())
            .build();
        Ok(Self {
            names,
            schema: Arc::new(SchemaDescriptor::new(Arc::new(schema))),
            properties: Arc::new(properties),
            rows: 0,
            group: Group::default(),
            groups: Vec::new(),
            indexes: PageIndexes::default(),
            late: Vec::new(),
            is_known: true,
        })
    }

    /// Writes what a file begins with, if nothing is written yet.
    fn begin_file(&self, out: &mut dyn Out) -> Result<()> {
        match out.position() {
            0 => out.frame(spot("magic number"), MAGIC),
            _ => Ok(()),
        }
    }

    /// The sidecars of a sample, a column each, to wait until their row group ends.
    fn held(&self, about: &About<'_>, fields: &[(&str, Body<'_>)]) -> Result<Vec<WaitingField>> {
        let mut sidecars = Vec::with_capacity(self.names.sidecars.len());
        for name in &self.names.sidecars {
            let field = fields.iter().find(|(field, _)| field == name);
            sidecars.push(match field.map(|(_, body)| body) {
                Some(Body::Bytes { bytes, crc32 }) => WaitingField::Bytes {
                    bytes: bytes.to_vec(),
                    crc32: *crc32,
                },
                Some(Body::Recorded { size, crc32 }) => WaitingField::Recorded {
                    size: *size,
                    crc32: *crc32,
                },
                Some(Body::Stream { size, .. }) => {
                    let what = format!(
                        "sample `{}`: its `{name}` file of {size} bytes is too large for a column beside the image: use another `--format`, or leave it out with `--exclude`",
                        about.key
                    );
                    return Err(Error::new(Kind::Source, what));
                }
                None => {
                    let what = format!(
                        "sample `{}` has no `{name}`, and a row has all columns",
                        about.key
                    );
                    return Err(Error::new(Kind::Source, what));
                }
            });
        }
        Ok(sidecars)
    }

    /// Writes what is left of the row group, if there is one.
    fn end_group(&mut self, out: &mut dyn Out) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.rows == 0 {
            return Ok(());
        }
        let written = end_group(group, &self.schema, &self.properties, self.names, out)?;
        self.late.extend(written.late);
        match written.metadata {
            Some(metadata) => {
                self.groups.push(metadata);
                self.indexes.push(written.indexes);
            }
            None => self.is_known = false,
        }
        Ok(())
    }

    /// The footer of a file whose row groups end at `position`.
    fn footer(&mut self, position: u64) -> Result<Vec<u8>, ParquetError> {
        let entry = KeyValue::new("huggingface".to_owned(), huggingface(self.names));
        let file = FileMetaData::new(
            1,
            self.rows as i64,
            Some("shardpack".to_owned()),
            Some(vec![entry]),
            Arc::clone(&self.schema),
            None,
        );
        let metadata = ParquetMetaDataBuilder::new(file)
            .set_row_groups(std::mem::take(&mut self.groups))
            .set_page_index(Some(Arc::new(std::mem::take(&mut self.indexes))))
            .build();
        let mut tail = Tail::new(position);
        let tracked = track(&mut tail, position)?;
        ParquetMetaDataWriter::new_with_tracked(tracked, &metadata).finish()?;
        Ok(tail.bytes)
    }
}

impl Packer for ParquetPacker<'_> {
    fn append(
        &mut self,
        out: &mut dyn Out,
        about: &About<'_>,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<PlacedSample> {
        self.begin_file(out)?;
        let image = fields
            .iter()
            .position(|(name, _)| image_field(name.as_bytes()).is_some())
            .ok_or_else(|| Error::failed(format!("sample `{}` has no image", about.key)))?;
        let sidecars = self.held(about, fields)?;
        let waiting: u64 = sidecars.iter().map(|held| held.body().size()).sum();
        let size = fields[image].1.size();
        if self.group.is_full_for(size, waiting) {
            self.end_group(out)?;
        }
        if self.group.rows == 0 {
            self.group = Group::new(self.rows, out.position(), sidecars.len());
        }
        let (name, body) = &mut fields[image];
        let spot = |what| Spot {
            what,
            sample: Some(self.rows),
            field: name,
        };
        let begin = out.position();
        out.frame(spot("page header"), &page_start(size, 2))?;
        let offset = out.position();
        let crc32 = out.content(spot("content"), body, &mut |_| ())?;
        let length = out.position() - begin;
        let group = &mut self.group;
        group.pages.push(begin, length);
        group.rows += 1;
        group.bytes += size + waiting;
        group.waiting_bytes += waiting;
        group.paths.push(ByteArray::from(base(about).into_bytes()));
        group.labels.push(about.label.map_or(-1, i64::from));
        for (column, held) in group.sidecars.iter_mut().zip(sidecars) {
            column.push(held);
        }
        self.rows += 1;
        Ok(PlacedSample {
            offset: begin,
            length,
            fields: vec![FieldRecord {
                name: (*name).to_owned(),
                offset,
                length: size,
                crc32,
            }],
        })
    }

    fn finish(&mut self, out: &mut dyn Out) -> Result<()> {
        self.begin_file(out)?;
        self.end_group(out)?;
        if !self.is_known {
            return out.unknown(self.rows);
        }
        let footer = self.footer(out.position()).map_err(failed)?;
        out.frame(spot("footer"), &footer)
    }

    fn late(&mut self) -> Vec<LateField> {
        std::mem::take(&mut self.late)
    }
}
