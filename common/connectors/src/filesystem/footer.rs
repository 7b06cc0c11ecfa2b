//! Parquet footers, read once per version of a file and kept in a bounded process-wide cache.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::files::FileStamp;
use crate::access::AccessRules;
use crate::error::Error;

/// Bounds of the cache: files, and bytes of decoded footers.
const MAX_ENTRIES: usize = 1024;
const MAX_BYTES: usize = 128 << 20;

static CACHE: LazyLock<Mutex<FooterCache>> = LazyLock::new(Mutex::default);

/// The footer of the file without its page index. Touches the file system, even when the footer is known: the file may have
/// changed.
pub(crate) fn open_with_footer(stamp: &FileStamp, rules: &AccessRules) -> Result<(File, Arc<ParquetMetaData>), Error> {
    let file = stamp.open(rules)?;
    let cached = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(stamp);
    if let Some(footer) = cached {
        return Ok((file, footer));
    }
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Skip);
    reader.try_parse(&file).map_err(|error| Error::data(&stamp.path, error))?;
    let footer = Arc::new(reader.finish().map_err(|error| Error::data(&stamp.path, error))?);
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(stamp.clone(), &footer);
    Ok((file, footer))
}

/// Least recently used goes first. A version of a file that is gone stays until it is pushed out.
#[derive(Debug, Default)]
struct FooterCache {
    entries: HashMap<FileStamp, Entry>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    footer: Arc<ParquetMetaData>,
    bytes: usize,
    used: u64,
}

impl FooterCache {
    fn get(&mut self, stamp: &FileStamp) -> Option<Arc<ParquetMetaData>> {
        self.clock += 1;
        let entry = self.entries.get_mut(stamp)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.footer))
    }

    fn insert(&mut self, stamp: FileStamp, footer: &Arc<ParquetMetaData>) {
        self.clock += 1;
        let entry = Entry { footer: Arc::clone(footer), bytes: footer.memory_size(), used: self.clock };
        if entry.bytes > MAX_BYTES {
            return;
        }
        self.remove(&stamp);
        while self.entries.len() >= MAX_ENTRIES || self.bytes + entry.bytes > MAX_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(stamp, _)| stamp.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
        self.bytes += entry.bytes;
        self.entries.insert(stamp, entry);
    }

    fn remove(&mut self, stamp: &FileStamp) {
        if let Some(entry) = self.entries.remove(stamp) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::tests::write_parquet;
    use crate::test_util::rules_for;

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_parquet(dir.path(), "a.parquet", &[&[1, 2]]);
        let stamp = crate::filesystem::files::find(&path, &rules_for(dir.path())).unwrap().remove(0);
        let (_, footer) = open_with_footer(&stamp, &rules_for(dir.path())).unwrap();
        let (_, again) = open_with_footer(&stamp, &rules_for(dir.path())).unwrap();
        assert!(Arc::ptr_eq(&footer, &again), "read once");

        let mut cache = FooterCache::default();
        let version = |modified_ns| FileStamp { modified_ns, ..stamp.clone() };
        for modified_ns in 0..MAX_ENTRIES as i64 + 10 {
            cache.insert(version(modified_ns), &footer);
            assert!(cache.get(&version(0)).is_some(), "the first is used all the time");
        }
        assert_eq!(cache.entries.len(), MAX_ENTRIES);
        assert!(cache.get(&version(1)).is_none());
        assert_eq!(cache.bytes, MAX_ENTRIES * footer.memory_size());
    }
}
