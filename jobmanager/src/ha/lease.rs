//! Who leads, and what every leader of a cluster must agree on.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thalweg_rpc::TicketKey;
use thalweg_types::LeaderEpoch;

use super::{HaError, io_error};

const LOCK: &str = "lock";
const LEADER: &str = "leader.json";
const RETRY: Duration = Duration::from_millis(100);

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct Stored {
    epoch: u64,
    /// Unix time in milliseconds of the first leader's start.
    origin_ms: u64,
    /// Hex. Tickets of an earlier leader stay good; not used by clusters with a token.
    ticket_key: String,
}

/// The leader's office. Given up when dropped.
#[derive(Debug)]
pub struct Leader {
    pub epoch: LeaderEpoch,
    /// Unix time in milliseconds that all times in records count from.
    pub origin_ms: u64,
    pub ticket_key: TicketKey,
    _lock: File,
}

impl Leader {
    /// Becomes the leader of the cluster in `dir`; waits for the one before to end.
    pub fn take(dir: &Path, patience: Duration) -> Result<Self, HaError> {
        let lock = lock(dir, patience)?;
        let path = dir.join(LEADER);
        let now_ms = unix_ms();
        let (before, ticket_key) = match std::fs::read(&path) {
            Ok(bytes) => {
                let damaged = |message: String| HaError::Damaged { path: path.clone(), message };
                let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
                let key = from_hex(&stored.ticket_key).and_then(|key| TicketKey::from_bytes(&key).ok());
                let key = key.ok_or_else(|| damaged("ticket_key is no key".to_owned()))?;
                (Some(stored), key)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                (None, TicketKey::random().map_err(HaError::Random)?)
            }
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        // above those of leaders without storage, which count from the time of their start, and if the clock was put back
        let epoch = before.as_ref().map_or(now_ms, |before| now_ms.max(before.epoch + 1));
        let origin_ms = before.map_or(now_ms, |before| before.origin_ms.min(now_ms));
        let stored = Stored { epoch, origin_ms, ticket_key: to_hex(ticket_key.as_bytes()) };
        write(dir, &path, &stored).map_err(io_error("write", &path))?;
        Ok(Self { epoch: LeaderEpoch(epoch), origin_ms, ticket_key, _lock: lock })
    }
}

fn lock(dir: &Path, patience: Duration) -> Result<File, HaError> {
    let path = dir.join(LOCK);
    let open = File::options().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(io_error("open", &path))?;
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(RETRY),
            Err(TryLockError::WouldBlock) => return Err(HaError::Led { path: dir.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
        }
    }
}

/// All of it or nothing, whenever the machine stops.
fn write(dir: &Path, path: &Path, stored: &Stored) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension("new");
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec_pretty(stored)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(dir)?.sync_all()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
