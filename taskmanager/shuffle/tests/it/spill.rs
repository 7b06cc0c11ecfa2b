//! Disk as overflow: what is spilled reads back, is counted, and its damage is noticed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use thalweg_shuffle::{Error, MemoryGauge};
use thalweg_types::Interval;

use crate::support::*;

fn input(batches: usize) -> (Vec<RecordBatch>, Vec<Vec<u64>>) {
    let mut rng = Rng(11);
    let data: Vec<_> = (0..batches).map(|_| simple_batch(&mut rng, 4096)).collect();
    (data, (0..batches).map(|_| random_hashes(&mut rng, 4096)).collect())
}

fn spill_files(t: &TestStore) -> Vec<PathBuf> {
    let entries = t.store.directories().iter().flat_map(|d| std::fs::read_dir(d).unwrap());
    entries.map(|e| e.unwrap().path()).collect()
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn spilled_outputs_read_like_those_in_memory_and_everything_is_given_back() {
    let (batches, hashes) = input(16);
    let memory = store(u64::MAX / 2, |o| o.flush_bytes = 500_000);
    let disk = store(300_000, |o| o.flush_bytes = 500_000);
    write(&memory.store, key(1, 0, 1), &batches, &hashes, 64);
    let stats = write(&disk.store, key(1, 0, 1), &batches, &hashes, 64);
    assert!(stats.spilled_bytes > 0);
    let usage = disk.store.usage();
    assert!(usage.memory <= 330_000, "{usage:?}");
    let on_disk: u64 = spill_files(&disk).iter().map(|p| p.metadata().unwrap().len()).sum();
    assert_eq!(usage.disk, on_disk);
    for id in (0..64).step_by(7) {
        assert_eq!(read(&disk.store, key(1, 0, 1), id, id + 3), read(&memory.store, key(1, 0, 1), id, id + 3));
    }
    disk.store.release_exchange(exchange_key(1));
    assert_eq!(disk.store.usage(), thalweg_shuffle::Usage::default());
    assert_eq!(spill_files(&disk), Vec::<PathBuf>::new());
    let dir = disk.store.directories()[0].clone();
    drop(disk.store);
    assert!(!dir.exists());
}

#[test]
fn the_background_thread_makes_room_when_operators_grow() {
    let (batches, hashes) = input(16);
    let t = store(10_000_000, |o| {
        o.flush_bytes = 500_000;
        o.evict_interval = Duration::from_millis(5);
    });
    write(&t.store, key(1, 0, 1), &batches, &hashes, 64);
    assert_eq!(t.store.usage().disk, 0);
    t.store.budget().set_other_used(9_500_000);
    wait_until("the store is under its budget", || t.store.budget().over_budget() == 0 && t.store.usage().disk > 0);
    assert_eq!(read(&t.store, key(1, 0, 1), 0, 64).unwrap().num_rows(), 16 * 4096);
}

#[test]
fn what_nobody_reads_yet_goes_first_and_the_highest_map_before_the_lower_ones() {
    let (batches, hashes) = input(4);
    let t = store(10_000_000, |o| o.evict_interval = Duration::from_millis(5));
    let keys = [key(1, 0, 1), key(1, 1, 1), key(2, 0, 1), key(2, 1, 1)];
    keys.iter().for_each(|k| drop(write(&t.store, *k, &batches, &hashes, 8)));
    drop(t.store.read(&key(1, 0, 1), Interval::new(0, 8), None).unwrap());
    let all = t.store.usage().memory;
    t.store.budget().set_limit(all);
    t.store.budget().set_other_used(all / 5); // a fifth over, a tenth to spare: 30 % of four equal outputs
    wait_until("something is spilled", || t.store.budget().over_budget() == 0);
    let names: Vec<String> =
        spill_files(&t).iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|n| n.contains("-x2-1-1-")), "{names:?}");
    assert!(names.iter().all(|n| n.contains("-x2-")), "{names:?}");
}

#[test]
fn a_reader_holds_what_it_reads_across_a_release() {
    let (batches, hashes) = input(4);
    let t = store(0, |_| {});
    write(&t.store, key(1, 0, 1), &batches, &hashes, 8);
    let reader = t.store.read(&key(1, 0, 1), Interval::new(0, 8), None).unwrap();
    t.store.release_exchange(exchange_key(1));
    assert_eq!(reader.map(|b| b.unwrap().num_rows()).sum::<usize>(), 4 * 4096);
    assert_eq!(t.store.usage(), thalweg_shuffle::Usage::default(), "nothing is left when the reader is gone");
}

#[test]
fn a_flipped_byte_on_disk_is_a_lost_block() {
    let (batches, hashes) = input(4);
    let t = store(0, |_| {});
    write(&t.store, key(1, 0, 1), &batches, &hashes, 8);
    let file = spill_files(&t).remove(0);
    let len = file.metadata().unwrap().len();
    for at in [0, len / 2, len - 1] {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[at as usize] ^= 0x40;
        std::fs::write(&file, &bytes).unwrap();
        let results: Vec<_> = t.store.read(&key(1, 0, 1), Interval::new(0, 8), None).unwrap().collect();
        let errors: Vec<_> = results.iter().filter_map(|r| r.as_ref().err()).collect();
        assert!(matches!(errors[..], [Error::LostBlock { .. }]), "byte {at}: {errors:?}");
        assert!(results.last().unwrap().is_err(), "nothing follows a lost block");
        bytes[at as usize] ^= 0x40;
        std::fs::write(&file, &bytes).unwrap();
    }
    std::fs::File::options().write(true).open(&file).unwrap().set_len(len / 2).unwrap();
    let last = t.store.read(&key(1, 0, 1), Interval::new(0, 8), None).unwrap().last().unwrap();
    assert!(matches!(last, Err(Error::LostBlock { .. })), "a file cut short: {last:?}");
}

#[test]
fn a_disk_that_fails_fails_the_writer_alone() {
    let (batches, hashes) = input(4);
    let t = store(2_000_000, |_| {});
    write(&t.store, key(1, 0, 1), &batches, &hashes, 8);
    // the directory is gone and a file stands in its place: nothing can be created in it any more
    let dir = t.store.directories()[0].clone();
    std::fs::remove_dir(&dir).unwrap();
    std::fs::write(&dir, b"x").unwrap();
    t.store.budget().set_limit(0);
    let mut writer = t.store.writer(key(1, 1, 1), batches[0].schema(), 8).unwrap();
    batches.iter().zip(&hashes).for_each(|(b, h)| writer.write(b.clone(), Some(h)).unwrap());
    let err = writer.finish().unwrap_err();
    assert!(matches!(&err, Error::Io { action: "create spill file", .. }), "{err}");
    assert_eq!(read(&t.store, key(1, 0, 1), 0, 8).unwrap().num_rows(), 4 * 4096);
    assert_eq!(t.store.usage().outputs, 1);
    t.store.release_exchange(exchange_key(1));
    assert_eq!(t.store.usage().memory, 0, "the failed attempt left nothing");
}

#[test]
fn directories_that_cannot_be_made_or_are_missing_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let options = thalweg_shuffle::StoreOptions { spill_dirs: vec![file], ..Default::default() };
    let err = thalweg_shuffle::ExchangeStore::new(options, std::sync::Arc::new(thalweg_shuffle::Budget::new(1)));
    assert!(matches!(err, Err(Error::Io { .. })));

    let (batches, hashes) = input(1);
    let t = store(0, |o| o.spill_dirs.clear());
    let mut writer = t.store.writer(key(1, 0, 1), batches[0].schema(), 8).unwrap();
    writer.write(batches[0].clone(), Some(&hashes[0])).unwrap();
    assert!(matches!(writer.finish(), Err(Error::NoSpillDirectory)));
}
