//! Journals that were cut off, storage that is led by another process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thalweg_config::{Config, HighAvailability};
use thalweg_core::{JobOptions, JobState, Record, Time};
use thalweg_types::JobId;

use super::{Entry, HaError, Leader, Storage, StoredSubmission, path_of};
use crate::testing::aggregate;

const JOB: JobId = JobId(7);

fn config() -> HighAvailability {
    Config::default().high_availability
}

fn open(dir: &Path) -> Storage {
    Storage::open(&config(), dir).unwrap()
}

fn submission() -> StoredSubmission {
    StoredSubmission {
        schema: vec![1, 2, 3],
        statement: "SELECT 1".into(),
        plan: "the plan".into(),
        settings: vec![("table.local-time-zone".into(), "UTC".into())],
        result_ttl: Duration::from_secs(1),
        result_max_size: 5,
    }
}

fn records() -> Vec<Record> {
    let at = |seconds| Time(Duration::from_secs(seconds));
    let template = Arc::new((*aggregate(3, 2)).clone());
    vec![
        Record::Submitted { job: JOB, template, options: JobOptions::default(), at: at(1) },
        Record::Reset { job: JOB, stage: thalweg_types::StageId(0), tasks: (0..100).collect() },
        Record::Ended { job: JOB, state: JobState::Cancelled, at: at(2) },
    ]
}

/// A journal with all records; the bytes it takes.
fn written(dir: &Path) -> Vec<u8> {
    let storage = open(dir);
    let mut journal = storage.journal().unwrap();
    journal.append(JOB, Entry::Submission(Box::new(submission())));
    for record in records() {
        journal.append(JOB, Entry::Record(record));
    }
    drop(journal);
    std::fs::read(path_of(&storage.jobs, JOB)).unwrap()
}

#[test]
fn what_was_appended_is_read() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    let storage = open(dir.path());
    let jobs = storage.load().unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].job, &jobs[0].submission), (JOB, &submission()));
    assert_eq!(jobs[0].records, records());
}

#[test]
fn wherever_it_was_cut_off_what_comes_before_is_read_and_can_be_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let whole = written(dir.path());
    let mut seen = std::collections::BTreeSet::new();
    let storage = open(dir.path());
    let path = path_of(&storage.jobs, JOB);
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let jobs = storage.load().unwrap();
        let Some(stored) = jobs.first() else {
            assert!(!path.exists(), "nobody was told of the job");
            continue;
        };
        assert_eq!(stored.records, records()[..stored.records.len()]);
        if seen.insert(stored.records.len()) {
            let ended = records().pop().unwrap();
            let mut journal = storage.journal().unwrap();
            journal.append(JOB, Entry::Record(ended.clone()));
            drop(journal);
            assert_eq!(storage.load().unwrap()[0].records.last(), Some(&ended));
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_flipped_bit_ends_what_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let whole = written(dir.path());
    let storage = open(dir.path());
    let path = path_of(&storage.jobs, JOB);
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, damaged).unwrap();
        if let Some(stored) = storage.load().unwrap().first() {
            assert!(stored.records.len() < records().len());
            assert_eq!(stored.records, records()[..stored.records.len()]);
        }
    }
}

#[test]
fn a_job_of_another_release_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let whole = written(dir.path());
    let storage = open(dir.path());
    let path = path_of(&storage.jobs, JOB);
    let (_, head) = super::format::open(&whole).unwrap();
    let mut other = Vec::new();
    super::format::seal(&super::format::Frame::Release("9.9.9".into()).encode().unwrap(), &mut other);
    other.extend(&whole[head..]);
    std::fs::write(&path, &other).unwrap();
    assert!(storage.load().unwrap().is_empty());
    assert_eq!(std::fs::read(&path).unwrap(), other);
}

#[test]
fn a_forgotten_job_leaves_no_file_and_durability_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open(dir.path());
    let mut journal = storage.journal().unwrap();
    let mut durable = journal.durable();
    let mut last = 0;
    for record in records() {
        last = journal.append(JOB, Entry::Record(record));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let told = durable.wait_for(|&number| number >= last);
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("soon").unwrap();
    });
    assert!(path_of(&storage.jobs, JOB).exists());
    journal.forget(JOB);
    drop(journal);
    assert!(!path_of(&storage.jobs, JOB).exists());
}

#[test]
fn a_disk_that_fails_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open(dir.path());
    std::fs::remove_dir_all(&storage.jobs).unwrap();
    let mut journal = storage.journal().unwrap();
    let durable = journal.durable();
    journal.append(JOB, Entry::Submission(Box::new(submission())));
    drop(journal);
    assert_eq!(*durable.borrow(), u64::MAX);
}

#[test]
fn there_is_one_leader_and_each_has_an_epoch_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let refused = Leader::take(&dir.path().join("default"), Duration::ZERO).unwrap_err();
    assert!(matches!(refused, HaError::Led { .. }), "{refused}");
    assert!(refused.to_string().contains("high-availability.cluster-id"), "{refused}");
    let other = HighAvailability { cluster_id: "/other".into(), ..config() };
    Storage::open(&other, dir.path()).unwrap();
    let (epoch, origin, key) = (first.leader.epoch, first.leader.origin_ms, first.leader.ticket_key.clone());
    drop(first);
    let second = open(dir.path());
    assert!(second.leader.epoch > epoch);
    assert_eq!((second.leader.origin_ms, &second.leader.ticket_key), (origin, &key));
}

#[test]
fn a_damaged_leader_file_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let path = dir.path().join("default/leader.json");
    std::fs::write(&path, "{}").unwrap();
    let refused = Storage::open(&config(), dir.path()).unwrap_err().to_string();
    assert!(refused.contains("leader.json") && refused.contains("damaged"), "{refused}");
}
