//! Whole messages of the link: domain to protobuf and back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_graph::{Leaf, Part};
use thalweg_proto::v1;
use thalweg_types::{ExchangeId, ExchangeKey, LeaderEpoch, StageId};

use super::check::{MAX_LEAVES, MAX_NAME, MAX_SETTINGS, MAX_TEXT, address, at_most, between, name, required, text};
use super::parts::{
    attempt_in, attempt_out, cause_in, cause_out, held_in, held_out, job_in, placement_in, placement_out,
    split_lists_in, split_lists_out, stats_in, stats_out, task_in, task_out, tm_in, tm_out,
};
use super::{FromTaskManager, MAX_INLINE_RESULT, ToTaskManager};
use crate::error::{Malformed, shortened};

const MAX_SLOTS: usize = 4096;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl From<FromTaskManager> for v1::FromTaskManager {
    fn from(message: FromTaskManager) -> Self {
        use v1::from_task_manager::Message;
        let message = match message {
            FromTaskManager::Register {
                resource,
                incarnation,
                data_address,
                slots,
                managed_memory,
                slot_memory,
                version,
                held,
            } => Message::Register(v1::Register {
                resource,
                incarnation,
                data_address,
                slots,
                managed_memory_bytes: managed_memory,
                slot_memory_bytes: slot_memory,
                version,
                held: held_out(&held),
            }),
            FromTaskManager::Heartbeat => Message::Heartbeat(v1::LinkHeartbeat {}),
            FromTaskManager::Finished { attempt, stats, splits, inline } => Message::Finished(v1::TaskFinished {
                attempt: Some(attempt_out(attempt)),
                stats: Some(stats_out(stats)),
                splits: split_lists_out(splits),
                inline,
            }),
            FromTaskManager::Failed { attempt, cause } => {
                Message::Failed(v1::TaskFailed { attempt: Some(attempt_out(attempt)), cause: Some(cause_out(cause)) })
            }
            FromTaskManager::NextSplit { attempt, source, request } => {
                Message::NextSplit(v1::NextSplit { attempt: Some(attempt_out(attempt)), source, request })
            }
            FromTaskManager::Progress { attempt, rows, bytes, busy_nanos } => {
                Message::Progress(v1::TaskProgress { attempt: Some(attempt_out(attempt)), rows, bytes, busy_nanos })
            }
            FromTaskManager::Leaving { detail } => {
                Message::Leaving(v1::Leaving { detail: shortened(&detail, MAX_TEXT / 4) })
            }
        };
        v1::FromTaskManager { message: Some(message) }
    }
}

impl TryFrom<v1::FromTaskManager> for FromTaskManager {
    type Error = Malformed;

    fn try_from(message: v1::FromTaskManager) -> Result<Self, Malformed> {
        use v1::from_task_manager::Message;
        Ok(match required("message", message.message)? {
            Message::Register(register) => register_in(register)?,
            Message::Heartbeat(v1::LinkHeartbeat {}) => FromTaskManager::Heartbeat,
            Message::Finished(finished) => {
                at_most("inline", finished.inline.as_ref().map_or(0, Bytes::len), MAX_INLINE_RESULT)?;
                FromTaskManager::Finished {
                    attempt: attempt_in(finished.attempt)?,
                    stats: stats_in(finished.stats)?,
                    splits: split_lists_in(finished.splits)?,
                    inline: finished.inline,
                }
            }
            Message::Failed(failed) => {
                FromTaskManager::Failed { attempt: attempt_in(failed.attempt)?, cause: cause_in(failed.cause)? }
            }
            Message::NextSplit(next) => FromTaskManager::NextSplit {
                attempt: attempt_in(next.attempt)?,
                source: source_in(next.source)?,
                request: next.request,
            },
            Message::Progress(progress) => FromTaskManager::Progress {
                attempt: attempt_in(progress.attempt)?,
                rows: progress.rows,
                bytes: progress.bytes,
                busy_nanos: progress.busy_nanos,
            },
            Message::Leaving(leaving) => FromTaskManager::Leaving { detail: text("detail", leaving.detail)? },
        })
    }
}

fn register_in(register: v1::Register) -> Result<FromTaskManager, Malformed> {
    if register.slot_memory_bytes > register.managed_memory_bytes {
        return Err(Malformed::Value {
            field: "slot_memory_bytes",
            found: register.slot_memory_bytes.to_string(),
            expected: "at most managed_memory_bytes",
        });
    }
    Ok(FromTaskManager::Register {
        resource: name("resource", register.resource)?,
        incarnation: register.incarnation,
        data_address: address("data_address", register.data_address)?,
        slots: between("slots", register.slots, 1, MAX_SLOTS, "1 to 4096")?,
        managed_memory: register.managed_memory_bytes,
        slot_memory: register.slot_memory_bytes,
        version: name("version", register.version)?,
        held: held_in(register.held)?,
    })
}

fn source_in(source: u32) -> Result<u32, Malformed> {
    between("source", source, 0, MAX_LEAVES, "a position in the stage's sources")
}

impl From<ToTaskManager> for v1::ToTaskManager {
    fn from(message: ToTaskManager) -> Self {
        use v1::to_task_manager::Message;
        let message = match message {
            ToTaskManager::Registered { epoch, ticket_key, heartbeat_interval, heartbeat_timeout } => {
                Message::Registered(v1::Registered {
                    epoch: epoch.0,
                    ticket_key: ticket_key.into(),
                    heartbeat_interval_ms: millis(heartbeat_interval),
                    heartbeat_timeout_ms: millis(heartbeat_timeout),
                })
            }
            ToTaskManager::Refused { reason } => {
                Message::Refused(v1::Refused { reason: shortened(&reason, MAX_TEXT / 4) })
            }
            ToTaskManager::Heartbeat => Message::Heartbeat(v1::LinkHeartbeat {}),
            ToTaskManager::Stage { job, stage, parts, settings } => {
                let settings = settings.into_iter().map(|(key, value)| v1::Setting { key, value }).collect();
                let parts = parts.into_iter().map(part_out).collect();
                Message::Stage(v1::StageFragment { job_id: job.to_string(), stage: stage.0, parts, settings })
            }
            ToTaskManager::Place { job, placement, addresses } => {
                let addresses = addresses
                    .into_iter()
                    .map(|(tm, address)| v1::DataAddress { task_manager: Some(tm_out(&tm)), address });
                Message::Place(v1::Place {
                    job_id: job.to_string(),
                    placement: Some(placement_out(&placement)),
                    addresses: addresses.collect(),
                })
            }
            ToTaskManager::Deploy { spec, exact } => {
                let exact = exact.into_iter().map(|payloads| v1::Payloads { payloads }).collect();
                Message::Deploy(v1::Deploy { task: Some(task_out(spec)), exact })
            }
            ToTaskManager::Cancel { attempt } => {
                Message::Cancel(v1::CancelTask { attempt: Some(attempt_out(attempt)) })
            }
            ToTaskManager::Split { attempt, source, request, split } => Message::Split(v1::SplitAnswer {
                attempt: Some(attempt_out(attempt)),
                source,
                request,
                split: split.map(|(position, payload)| v1::AssignedSplit { position, payload }),
            }),
            ToTaskManager::Retain { outputs } => Message::Retain(v1::Retain { outputs: held_out(&outputs) }),
            ToTaskManager::ReleaseExchange { exchange } => Message::ReleaseExchange(v1::ReleaseExchange {
                job_id: exchange.job.to_string(),
                exchange: exchange.exchange.0,
            }),
            ToTaskManager::ReleaseJob { job } => Message::ReleaseJob(v1::ReleaseJob { job_id: job.to_string() }),
        };
        v1::ToTaskManager { message: Some(message) }
    }
}

impl TryFrom<v1::ToTaskManager> for ToTaskManager {
    type Error = Malformed;

    fn try_from(message: v1::ToTaskManager) -> Result<Self, Malformed> {
        use v1::to_task_manager::Message;
        Ok(match required("message", message.message)? {
            Message::Registered(registered) => registered_in(registered)?,
            Message::Refused(refused) => ToTaskManager::Refused { reason: text("reason", refused.reason)? },
            Message::Heartbeat(v1::LinkHeartbeat {}) => ToTaskManager::Heartbeat,
            Message::Stage(stage) => stage_in(stage)?,
            Message::Place(place) => place_in(place)?,
            Message::Deploy(deploy) => deploy_in(deploy)?,
            Message::Cancel(cancel) => ToTaskManager::Cancel { attempt: attempt_in(cancel.attempt)? },
            Message::Split(split) => ToTaskManager::Split {
                attempt: attempt_in(split.attempt)?,
                source: source_in(split.source)?,
                request: split.request,
                split: split.split.map(|split| (split.position, split.payload)),
            },
            Message::Retain(retain) => ToTaskManager::Retain { outputs: held_in(retain.outputs)? },
            Message::ReleaseExchange(release) => ToTaskManager::ReleaseExchange {
                exchange: ExchangeKey { job: job_in(&release.job_id)?, exchange: ExchangeId(release.exchange) },
            },
            Message::ReleaseJob(release) => ToTaskManager::ReleaseJob { job: job_in(&release.job_id)? },
        })
    }
}

fn registered_in(registered: v1::Registered) -> Result<ToTaskManager, Malformed> {
    let (interval, timeout) = (registered.heartbeat_interval_ms, registered.heartbeat_timeout_ms);
    if interval == 0 || interval >= timeout || timeout > DAY_MS {
        return Err(Malformed::Value {
            field: "heartbeat_interval_ms",
            found: format!("{interval} with a timeout of {timeout}"),
            expected: "more than 0 and less than heartbeat_timeout_ms, which is at most a day",
        });
    }
    if !(16..=128).contains(&registered.ticket_key.len()) {
        let found = format!("{} bytes", registered.ticket_key.len());
        return Err(Malformed::Value { field: "ticket_key", found, expected: "16 to 128 bytes" });
    }
    Ok(ToTaskManager::Registered {
        epoch: LeaderEpoch(registered.epoch),
        ticket_key: registered.ticket_key.into(),
        heartbeat_interval: Duration::from_millis(interval),
        heartbeat_timeout: Duration::from_millis(timeout),
    })
}

fn stage_in(stage: v1::StageFragment) -> Result<ToTaskManager, Malformed> {
    at_most("settings", stage.settings.len(), MAX_SETTINGS)?;
    at_most("parts", stage.parts.len(), MAX_LEAVES)?;
    let settings = stage.settings.into_iter().map(|setting| {
        at_most("settings.value", setting.value.len(), MAX_TEXT)?;
        Ok((name("settings.key", setting.key)?, setting.value))
    });
    Ok(ToTaskManager::Stage {
        settings: settings.collect::<Result<_, Malformed>>()?,
        job: job_in(&stage.job_id)?,
        stage: StageId(stage.stage),
        parts: stage.parts.into_iter().map(part_in).collect::<Result<_, _>>()?,
    })
}

fn part_out(part: Part) -> v1::StagePart {
    use v1::stage_part::{Leaf as LeafProto, leaf};
    let leaf = |leaf: Leaf| match leaf {
        Leaf::Input(input) => leaf::Leaf::Input(input),
        Leaf::Part(part) => leaf::Leaf::Part(part),
    };
    let inputs = part.inputs.into_iter().map(|l| LeafProto { leaf: Some(leaf(l)) }).collect();
    v1::StagePart { fragment: Bytes::from_owner(part.fragment), inputs, first_source: part.first_source }
}

fn part_in(part: v1::StagePart) -> Result<Part, Malformed> {
    use v1::stage_part::leaf;
    at_most("parts.inputs", part.inputs.len(), MAX_LEAVES)?;
    at_most("parts.first_source", part.first_source as usize, MAX_LEAVES)?;
    let inputs = part.inputs.into_iter().map(|l| match required("parts.inputs", l.leaf)? {
        leaf::Leaf::Input(input) => Ok(Leaf::Input(input)),
        leaf::Leaf::Part(part) => Ok(Leaf::Part(part)),
    });
    let inputs = inputs.collect::<Result<_, Malformed>>()?;
    Ok(Part { fragment: Arc::from(part.fragment.as_ref()), inputs, first_source: part.first_source })
}

fn place_in(place: v1::Place) -> Result<ToTaskManager, Malformed> {
    let addresses = place.addresses.into_iter().map(|entry| {
        at_most("addresses.address", entry.address.len(), MAX_NAME)?;
        Ok((tm_in(entry.task_manager)?, address("addresses.address", entry.address)?))
    });
    Ok(ToTaskManager::Place {
        addresses: addresses.collect::<Result<_, Malformed>>()?,
        job: job_in(&place.job_id)?,
        placement: Arc::new(placement_in(place.placement)?),
    })
}

fn deploy_in(deploy: v1::Deploy) -> Result<ToTaskManager, Malformed> {
    use thalweg_graph::SplitPolicy;
    let spec = task_in(deploy.task)?;
    let exact: Vec<Vec<Bytes>> = deploy.exact.into_iter().map(|list| list.payloads).collect();
    let matches = exact.len() == spec.splits.len()
        && spec.splits.iter().zip(&exact).all(|(policy, payloads)| match policy {
            SplitPolicy::Ask => payloads.is_empty(),
            SplitPolicy::Exactly(positions) => positions.len() == payloads.len(),
        });
    if !matches {
        return Err(Malformed::Value {
            field: "exact",
            found: format!("{} lists of other lengths", exact.len()),
            expected: "one payload per split that the task has to read exactly",
        });
    }
    Ok(ToTaskManager::Deploy { spec, exact })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
