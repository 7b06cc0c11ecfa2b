//! Writing and reading journals.
//!
//! One thread writes for all jobs. It takes whatever was appended since it last looked, writes it and syncs once per file
//! (group commit), then says up to which number everything is durable. When the disk fails, or falls behind by [`MAX_BEHIND`]
//! bytes, the journal gives up: it says so, the cluster goes on, and nothing further is written down. What is on disk then is an
//! earlier state of the jobs, which is safe to go on from: outputs that it does not know of are not used.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use thalweg_core::Record;
use thalweg_types::JobId;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use super::format::{Frame, StoredSubmission, open, seal};
use super::{HaError, StoredJob, io_error, path_of};

const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// Bytes appended and not yet durable.
const MAX_BEHIND: u64 = 256 << 20;
/// Everything is durable, or nothing will be: nobody needs to wait.
const ALL: u64 = u64::MAX;

/// What is appended.
#[derive(Debug)]
pub enum Entry {
    Submission(Box<StoredSubmission>),
    Record(Record),
}

enum Order {
    Append {
        number: u64,
        job: JobId,
        content: Vec<u8>,
    },
    /// The job is of no interest any more.
    Forget {
        job: JobId,
    },
}

/// The end that appends. Dropping it writes what was appended and ends the thread.
#[derive(Debug)]
pub struct Journal {
    orders: Option<Sender<Order>>,
    appended: u64,
    shared: Arc<Shared>,
    durable: watch::Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    behind: AtomicU64,
    failed: AtomicBool,
    durable: watch::Sender<u64>,
}

impl Shared {
    fn give_up(&self, reason: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            error!(reason, "jobs are no longer written down: they would not go on after a loss of this jobmanager");
        }
        self.durable.send_replace(ALL);
    }
}

impl Journal {
    pub fn start(jobs: PathBuf) -> io::Result<Self> {
        let (orders, received) = channel();
        let (durable_tx, durable) = watch::channel(0);
        let shared =
            Arc::new(Shared { behind: AtomicU64::new(0), failed: AtomicBool::new(false), durable: durable_tx });
        let writer = Writer { jobs, files: HashMap::new(), shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run(&received))?;
        Ok(Self { orders: Some(orders), appended: 0, shared, durable, thread: Some(thread) })
    }

    /// The number of the entry: durable once [`Journal::durable`] has come to it.
    pub fn append(&mut self, job: JobId, entry: Entry) -> u64 {
        let frame = match entry {
            Entry::Submission(submission) => Frame::Submission(submission),
            Entry::Record(record) => Frame::Record(Box::new(record)),
        };
        self.appended += 1;
        match frame.encode() {
            Ok(content) => {
                let behind = self.shared.behind.fetch_add(content.len() as u64, Ordering::AcqRel);
                if behind > MAX_BEHIND {
                    self.shared.give_up("the disk is too slow");
                }
                self.send(Order::Append { number: self.appended, job, content });
            }
            Err(error) => self.shared.give_up(&error.to_string()),
        }
        self.appended
    }

    pub fn forget(&mut self, job: JobId) {
        self.send(Order::Forget { job });
    }

    fn send(&self, order: Order) {
        if self.shared.failed.load(Ordering::Acquire) {
            return;
        }
        if let Some(orders) = &self.orders
            && orders.send(order).is_err()
        {
            self.shared.give_up("its thread has ended");
        }
    }

    /// Up to which number everything is durable.
    pub fn durable(&self) -> watch::Receiver<u64> {
        self.durable.clone()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the journal's thread panicked");
        }
    }
}

struct Writer {
    jobs: PathBuf,
    files: HashMap<JobId, File>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(first) = orders.recv() {
            if let Err(error) = self.commit(std::iter::once(first).chain(orders.try_iter())) {
                self.shared.give_up(&error.to_string());
                return;
            }
        }
    }

    /// Writes and syncs, then says so.
    fn commit(&mut self, orders: impl Iterator<Item = Order>) -> Result<(), HaError> {
        let mut written: HashMap<JobId, Vec<u8>> = HashMap::new();
        let mut forgotten = Vec::new();
        let (mut last, mut bytes) = (0, 0);
        for order in orders {
            match order {
                Order::Append { number, job, content } => {
                    seal(&content, written.entry(job).or_default());
                    (last, bytes) = (number, bytes + content.len() as u64);
                }
                Order::Forget { job } => forgotten.push(job),
            }
        }
        for (job, frames) in written {
            let path = path_of(&self.jobs, job);
            self.write(job, &path, &frames).map_err(io_error("write", &path))?;
        }
        for job in forgotten {
            self.files.remove(&job);
            let path = path_of(&self.jobs, job);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => warn!(?path, %error, "journal not removed"),
                _ => {}
            }
        }
        self.shared.behind.fetch_sub(bytes, Ordering::AcqRel);
        if last > 0 {
            self.shared.durable.send_if_modified(|durable| {
                let grows = *durable < last;
                *durable = (*durable).max(last);
                grows
            });
        }
        Ok(())
    }

    fn write(&mut self, job: JobId, path: &Path, frames: &[u8]) -> io::Result<()> {
        if let Some(file) = self.files.get_mut(&job) {
            file.write_all(frames)?;
            return file.sync_data();
        }
        let mut file = File::options().create(true).append(true).open(path)?;
        let is_new = file.metadata()?.len() == 0;
        if is_new {
            let mut head = Vec::new();
            seal(&Frame::Release(RELEASE.into()).encode().map_err(io::Error::other)?, &mut head);
            file.write_all(&head)?;
        }
        file.write_all(frames)?;
        file.sync_data()?;
        if is_new {
            File::open(&self.jobs)?.sync_all()?;
        }
        self.files.insert(job, file);
        Ok(())
    }
}

/// A job from its journal, which is cut behind the last whole frame. `None` if nobody was told that the job exists, or another
/// release wrote it.
pub fn load(path: &Path, job: JobId) -> Result<Option<StoredJob>, HaError> {
    let bytes = std::fs::read(path).map_err(io_error("read", path))?;
    let mut at = 0;
    let (mut submission, mut records) = (None, Vec::new());
    while let Some((frame, length)) = open(&bytes[at..]) {
        match frame {
            Frame::Release(release) if release != RELEASE => {
                warn!(?path, %release, "a job of another release is left alone: start that release to finish it");
                return Ok(None);
            }
            Frame::Release(_) => {}
            Frame::Submission(stored) => submission = Some(*stored),
            Frame::Record(record) if record.job() == job => records.push(*record),
            Frame::Record(record) => warn!(?path, other = %record.job(), "a record of another job is skipped"),
        }
        at += length;
    }
    let submitted = matches!(records.first(), Some(Record::Submitted { .. }));
    let (Some(submission), true) = (submission, submitted) else {
        debug!(?path, "a journal without a whole submission is removed");
        std::fs::remove_file(path).map_err(io_error("remove", path))?;
        return Ok(None);
    };
    if at < bytes.len() {
        warn!(?path, bytes = bytes.len() - at, "the end of a journal was never completed and is cut off");
        let cut = File::options().write(true).open(path).and_then(|file| {
            file.set_len(at as u64)?;
            file.sync_all()
        });
        cut.map_err(io_error("cut", path))?;
    }
    Ok(Some(StoredJob { job, submission, records }))
}
