//! What waits until it is durable.
//!
//! A task runs only after its stage's binding is durable, data is dropped only after the records of what was made from it are,
//! and a client hears that its job was taken only when it would survive. Everything else goes out at once, unless something
//! before it waits: the order stays.

use std::collections::VecDeque;

use thalweg_core::{Action, Report, Time};
use thalweg_rpc::Problem;
use thalweg_types::AttemptId;

use super::Reply;
use super::jobs::AttemptNews;

/// What to do once it may be done.
#[derive(Debug)]
pub(super) enum Held {
    Action { action: Box<Action>, news: Option<(AttemptId, AttemptNews)>, now: Time },
    Accepted(Reply<Result<(), Problem>>),
}

/// Numbers are those of the journal's entries; 0 is durable from the start.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<(u64, Held)>,
    /// Of the last entry that is a decision.
    decided: u64,
    /// Of the last entry.
    last: u64,
    durable: u64,
}

impl Outbox {
    /// An entry was appended.
    pub fn appended(&mut self, number: u64, is_decision: bool) {
        self.last = number;
        if is_decision {
            self.decided = number;
        }
    }

    pub fn durable(&mut self, number: u64) {
        self.durable = self.durable.max(number);
    }

    /// The entry that has to be durable before the action is carried out.
    fn needs(&self, action: &Action) -> u64 {
        match action {
            Action::Deploy { .. } => self.decided,
            Action::ReleaseExchange { .. } | Action::ReleaseJob { .. } | Action::Report(Report::ResultReady { .. }) => {
                self.last
            }
            _ => 0,
        }
    }

    /// True if the action may be carried out now.
    pub fn lets_pass(&self, action: &Action) -> bool {
        self.waiting.is_empty() && self.needs(action) <= self.durable
    }

    pub fn hold(&mut self, action: Action, news: Option<(AttemptId, AttemptNews)>, now: Time) {
        let needs = self.needs(&action);
        self.waiting.push_back((needs, Held::Action { action: Box::new(action), news, now }));
    }

    /// Gives the reply back if it need not wait.
    pub fn hold_reply(&mut self, reply: Reply<Result<(), Problem>>) -> Option<Reply<Result<(), Problem>>> {
        if self.waiting.is_empty() && self.last <= self.durable {
            return Some(reply);
        }
        self.waiting.push_back((self.last, Held::Accepted(reply)));
        None
    }

    /// The first that waits no longer.
    pub fn pop(&mut self) -> Option<Held> {
        self.waiting.pop_front_if(|(needs, _)| *needs <= self.durable).map(|(_, held)| held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::{ExchangeId, ExchangeKey, JobId, TaskManagerId};

    fn tm() -> TaskManagerId {
        TaskManagerId::new("a", 1)
    }

    fn release() -> Action {
        let exchange = ExchangeKey { job: JobId(1), exchange: ExchangeId(0) };
        Action::ReleaseExchange { tm: tm(), exchange }
    }

    fn report() -> Action {
        Action::Report(Report::Job { job: JobId(1), state: thalweg_core::JobState::Running })
    }

    fn popped(outbox: &mut Outbox) -> Vec<Action> {
        let action = |held| match held {
            Held::Action { action, .. } => *action,
            Held::Accepted(_) => panic!("an action"),
        };
        std::iter::from_fn(|| outbox.pop()).map(action).collect()
    }

    #[test]
    fn what_depends_on_a_record_waits_and_what_follows_keeps_its_place() {
        let mut outbox = Outbox::default();
        assert!(outbox.lets_pass(&release()), "there is no record");
        outbox.appended(1, false);
        assert!(outbox.lets_pass(&report()));
        assert!(!outbox.lets_pass(&release()));
        outbox.hold(release(), None, Time::default());
        assert!(!outbox.lets_pass(&report()), "it would overtake");
        outbox.hold(report(), None, Time::default());
        assert!(popped(&mut outbox).is_empty());
        outbox.durable(1);
        assert_eq!(popped(&mut outbox), [release(), report()]);
        assert!(outbox.lets_pass(&release()));
    }

    #[test]
    fn a_task_waits_for_decisions_alone() {
        let task = thalweg_graph::TaskSpec {
            attempt: AttemptId {
                task: thalweg_types::TaskId { job: JobId(1), stage: thalweg_types::StageId(0), index: 0 },
                attempt: 1,
            },
            epoch: thalweg_types::LeaderEpoch(1),
            splits: vec![],
            inputs: vec![],
            output: ExchangeId(0),
            result: false,
            subpartitions: 1,
            parallelism: 1,
        };
        let deploy = Action::Deploy { tm: tm(), task: Box::new(task) };
        let mut outbox = Outbox::default();
        outbox.appended(1, true);
        outbox.appended(2, false);
        assert!(!outbox.lets_pass(&deploy));
        outbox.durable(1);
        assert!(outbox.lets_pass(&deploy));
        assert!(!outbox.lets_pass(&release()));
    }

    #[test]
    fn an_accepted_job_is_answered_once_it_is_durable() {
        let mut outbox = Outbox::default();
        let (reply, _answer) = tokio::sync::oneshot::channel();
        let reply = outbox.hold_reply(reply).expect("nothing to wait for");
        outbox.appended(1, true);
        assert!(outbox.hold_reply(reply).is_none());
        assert!(outbox.pop().is_none());
        outbox.durable(1);
        assert!(matches!(outbox.pop(), Some(Held::Accepted(_))));
    }
}
