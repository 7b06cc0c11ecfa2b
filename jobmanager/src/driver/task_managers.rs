//! The TaskManagers that are linked, and what each was sent.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_core::Time;
use thalweg_graph::Placement;
use thalweg_rpc::link::ToTaskManager;
use thalweg_types::{JobId, StageId, TaskManagerId};
use tokio::sync::mpsc;

use super::{Arrival, ClusterSize};

#[derive(Debug)]
pub(super) struct Linked {
    pub orders: mpsc::Sender<ToTaskManager>,
    pub data_address: String,
    pub slots: u32,
    pub managed_memory: u64,
    pub slot_memory: u64,
    pub in_process: bool,
    pub last_heard: Time,
    /// Stages whose fragment it has.
    stages: BTreeSet<(JobId, StageId)>,
}

/// An order could not be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undelivered {
    /// It is not linked (any more); whoever noticed has said so.
    NotLinked,
    /// It does not take its orders, or its link has just ended.
    Stuck,
}

#[derive(Debug, Default)]
pub(super) struct TaskManagers {
    linked: BTreeMap<TaskManagerId, Linked>,
}

impl TaskManagers {
    pub fn insert(&mut self, arrival: Arrival, now: Time) {
        let linked = Linked {
            orders: arrival.orders,
            data_address: arrival.data_address,
            slots: arrival.slots,
            managed_memory: arrival.managed_memory,
            slot_memory: arrival.slot_memory,
            in_process: arrival.in_process,
            last_heard: now,
            stages: BTreeSet::new(),
        };
        self.linked.insert(arrival.id, linked);
    }

    /// Ends the links that were made in the name of the same resource.
    pub fn drop_same(&mut self, id: &TaskManagerId) {
        self.linked.retain(|other, _| other.resource != id.resource);
    }

    pub fn get(&self, id: &TaskManagerId) -> Option<&Linked> {
        self.linked.get(id)
    }

    pub fn len(&self) -> usize {
        self.linked.len()
    }

    /// True if it was linked.
    pub fn remove(&mut self, id: &TaskManagerId) -> bool {
        self.linked.remove(id).is_some()
    }

    pub fn heard(&mut self, id: &TaskManagerId, now: Time) -> bool {
        let Some(linked) = self.linked.get_mut(id) else { return false };
        linked.last_heard = now;
        true
    }

    pub fn send(&mut self, id: &TaskManagerId, order: ToTaskManager) -> Result<(), Undelivered> {
        let linked = self.linked.get(id).ok_or(Undelivered::NotLinked)?;
        linked.orders.try_send(order).map_err(|_| Undelivered::Stuck)
    }

    /// Notes that a stage's fragment is about to be sent; false if it has it, or is not linked.
    pub fn lacks_stage(&mut self, id: &TaskManagerId, job: JobId, stage: StageId) -> bool {
        self.linked.get_mut(id).is_some_and(|linked| linked.stages.insert((job, stage)))
    }

    pub fn forget_job(&mut self, id: &TaskManagerId, job: JobId) {
        if let Some(linked) = self.linked.get_mut(id) {
            linked.stages.retain(|(of, _)| *of != job);
        }
    }

    /// The data addresses of all TaskManagers a placement names, as far as they are linked.
    pub fn addresses(&self, placement: &Placement) -> Vec<(TaskManagerId, String)> {
        let named: BTreeSet<&TaskManagerId> = placement.maps.iter().map(|map| &map.task_manager).collect();
        let address = |id: &TaskManagerId| Some((id.clone(), self.linked.get(id)?.data_address.clone()));
        named.into_iter().filter_map(address).collect()
    }

    pub fn size(&self) -> ClusterSize {
        ClusterSize {
            smallest_slot_memory: self.linked.values().map(|linked| linked.slot_memory).min(),
            slots: self.linked.values().map(|linked| linked.slots).sum(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TaskManagerId, &Linked)> {
        self.linked.iter()
    }
}
