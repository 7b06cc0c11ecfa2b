//! What waits on whom, in words, for a job that does not get on.

use std::collections::BTreeMap;

use thalweg_types::TaskManagerId;

use super::Job;
use super::stage::TaskState;
use crate::cluster::Cluster;

/// Stages named in the text; hosts named per stage.
const SHOWN: usize = 8;

impl Job {
    pub(super) fn what_waits(&self, cluster: &Cluster) -> String {
        let runs = |s: &usize| self.template.stages[*s].fused_into.is_none() && !self.stages[*s].all_done();
        let unfinished = (0..self.stages.len()).filter(runs);
        let mut parts: Vec<String> = unfinished.take(SHOWN).map(|s| self.stage_waits(s, cluster)).collect();
        let (free, slots) = (cluster.free_slots(), cluster.slots());
        parts.push(format!("{} taskmanagers with {slots} slots, {free} free", cluster.len()));
        parts.join("; ")
    }

    fn stage_waits(&self, stage: usize, cluster: &Cluster) -> String {
        let spec = &self.template.stages[stage];
        let run = &self.stages[stage];
        let head = format!("{} ({}) has {} of {} tasks finished", spec.id, spec.name, run.done, run.tasks.len());
        let mut waits = Vec::new();
        if run.running > 0 {
            waits.push(self.who_runs(stage));
        }
        let missing: Vec<String> = spec
            .inputs
            .iter()
            .filter(|i| !self.stages[self.producer(i.exchange)].is_sealed())
            .map(|i| format!("{} of {}", i.exchange, self.template.exchange(i.exchange).producer))
            .collect();
        let queued = run.fresh.len() + run.reruns.len();
        if !missing.is_empty() {
            waits.push(format!("waits for {}", missing.join(", ")));
        } else if queued > 0 && cluster.free_slots() == 0 {
            waits.push(format!("{queued} tasks wait for a slot"));
        }
        let backing_off = self.backoffs.iter().filter(|(_, s, _)| *s == stage).count();
        if backing_off > 0 {
            waits.push(format!("{backing_off} tasks wait before another attempt"));
        }
        if self.held.contains(&stage) {
            waits.push("held until the other sides of its join are known".to_owned());
        } else if !run.is_bound() && missing.is_empty() {
            waits.push("not cut into tasks: no slot is registered".to_owned());
        }
        if waits.is_empty() { head } else { format!("{head}, {}", waits.join(", ")) }
    }

    fn who_runs(&self, stage: usize) -> String {
        let mut hosts: BTreeMap<&TaskManagerId, Vec<String>> = BTreeMap::new();
        for (index, task) in self.stages[stage].tasks.iter().enumerate() {
            if let TaskState::Running(running) = &task.state {
                let names = hosts.entry(&running.tm).or_default();
                if names.len() <= SHOWN {
                    names.push(format!("{index}#{}", task.attempts));
                }
            }
        }
        let host = |(tm, names): (&&TaskManagerId, &Vec<String>)| {
            let more = if names.len() > SHOWN { ", …" } else { "" };
            format!("{}{more} on {tm}", names[..names.len().min(SHOWN)].join(", "))
        };
        let shown: Vec<String> = hosts.iter().take(SHOWN).map(host).collect();
        format!("running {}", shown.join(" and "))
    }
}
