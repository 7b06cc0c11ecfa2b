//! The operators of a stage as opaque parts, and how a stage takes over those of one it reads from.
//!
//! A stage starts with one part. When the scheduler decides that its tasks run a producer's operators themselves instead of
//! reading what the producer wrote, the producer's parts, leaves and sources are added to its own ([`PlanTemplate::fuse`]).
//! Leaves are renumbered by what stands beside a part, never inside of it: a fragment is encoded once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::StageId;

use crate::template::{PlanTemplate, Stage};

/// An encoded fragment and where its leaves read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Opaque here.
    pub fragment: Arc<[u8]>,
    /// By the fragment's own numbers of its inputs.
    pub inputs: Vec<Leaf>,
    /// The stage's number of the fragment's source 0; the others follow.
    pub first_source: u32,
}

/// What stands where a fragment reads an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaf {
    /// The stage's input with this number.
    Input(u32),
    /// The operators of the part with this number, which is greater than that of the part it stands in.
    Part(u32),
}

impl Part {
    /// The only part of a stage that reads `inputs` inputs.
    pub fn alone(fragment: Arc<[u8]>, inputs: usize) -> Self {
        Self { fragment, inputs: (0..inputs as u32).map(Leaf::Input).collect(), first_source: 0 }
    }
}

/// True if the parts make one tree with part 0 at its root, whose leaves are `inputs` inputs, each read once.
pub fn parts_fit(parts: &[Part], inputs: usize) -> bool {
    let mut read = vec![0u32; inputs];
    let mut used = vec![0u32; parts.len()];
    for (number, part) in parts.iter().enumerate() {
        for leaf in &part.inputs {
            let count = match *leaf {
                Leaf::Input(input) => read.get_mut(input as usize),
                Leaf::Part(other) if other as usize > number => used.get_mut(other as usize),
                Leaf::Part(_) => None,
            };
            match count {
                Some(count) => *count += 1,
                None => return false,
            }
        }
    }
    !parts.is_empty() && used[0] == 0 && used[1..].iter().chain(&read).all(|&count| count == 1)
}

impl PlanTemplate {
    /// Lets the tasks of `consumer` run the operators of the stage that writes their input number `input`, and read all of
    /// every other hash input. The exchange between them is written and read by nobody from then on, the producer never runs.
    ///
    /// Whether the rows stay the same is for the caller to know: the input is [divisible](crate::StageInput::divisible).
    /// False, and nothing changed, if there is no such input or its producer is fused already.
    pub fn fuse(&mut self, consumer: StageId, input: usize) -> bool {
        let Some(read) = self.stages.get(consumer.index()).and_then(|s| s.inputs.get(input)) else { return false };
        let producer = self.exchange(read.exchange).producer;
        let producer_stage = &self.stages[producer.index()];
        if producer_stage.fused_into.is_some() || self.stages[consumer.index()].fused_into.is_some() {
            return false;
        }
        let producer_stage = producer_stage.clone();
        for moved in &producer_stage.inputs {
            self.exchanges[moved.exchange.index()].consumer = Some(consumer);
        }
        self.stages[consumer.index()].take_over(input, producer_stage);
        self.stages[producer.index()].fused_into = Some(consumer);
        true
    }
}

impl Stage {
    fn take_over(&mut self, input: usize, producer: Stage) {
        let (own_parts, own_sources) = (self.parts.len() as u32, self.sources.len() as u32);
        self.inputs.remove(input);
        for other in &mut self.inputs {
            other.replicated = true;
        }
        let (own_inputs, input) = (self.inputs.len() as u32, input as u32);
        for leaf in self.parts.iter_mut().flat_map(|part| &mut part.inputs) {
            match leaf {
                Leaf::Input(at) if *at == input => *leaf = Leaf::Part(own_parts),
                Leaf::Input(at) if *at > input => *at -= 1,
                _ => {}
            }
        }
        self.parts.extend(producer.parts.into_iter().map(|mut part| {
            for leaf in &mut part.inputs {
                match leaf {
                    Leaf::Input(at) => *at += own_inputs,
                    Leaf::Part(number) => *number += own_parts,
                }
            }
            part.first_source += own_sources;
            part
        }));
        let sides = self.inputs.iter().map(|i| i.type_number + 1).max().unwrap_or(0);
        self.inputs.extend(producer.inputs.into_iter().map(|mut moved| {
            moved.type_number += sides;
            moved
        }));
        self.sources.extend(producer.sources);
        self.determinism = self.determinism.max(producer.determinism);
        // a stage that reads an exchange says so first
        let then = self.name.strip_prefix("read → ").unwrap_or(&self.name);
        self.name = format!("{} → {then}", producer.name);
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::ExchangeId;

    use super::*;
    use crate::{Determinism, Exchange, ExchangeKind, InputRole, Parallelism, Source, Split, StageInput};

    /// A chain of two joins over three scans: s0 and s1 are built, s2 is scanned, s3 = s0 ⋈ s2, s4 = s1 ⋈ s3.
    fn chain() -> PlanTemplate {
        let kind = |id| if id == 4 { ExchangeKind::Result } else { ExchangeKind::Hash { subpartitions: 8 } };
        let reads = |id: u32| match id {
            3 => vec![0, 2],
            4 => vec![1, 3],
            _ => vec![],
        };
        let input = |(at, exchange): (usize, u32)| StageInput {
            exchange: ExchangeId(exchange),
            role: if at == 0 { InputRole::Build } else { InputRole::Probe },
            type_number: at as u32,
            divisible: true,
            replicated: false,
            per_map: false,
        };
        let stage = |id: u32| {
            let inputs: Vec<StageInput> = reads(id).into_iter().enumerate().map(input).collect();
            let split = Split { bytes: u64::from(id), payload: Arc::from([]) };
            let source = Source { name: format!("t{id}"), splits: vec![split] };
            Stage {
                id: StageId(id),
                name: format!("read → n{id}"),
                parts: vec![Part::alone(Arc::from([id as u8]), inputs.len())],
                sources: if inputs.is_empty() { vec![source] } else { vec![] },
                inputs,
                output: ExchangeId(id),
                parallelism: Parallelism::Auto,
                determinism: if id < 3 { Determinism::Deterministic } else { Determinism::OrderFree },
                fused_into: None,
            }
        };
        let consumers = [Some(3), Some(4), Some(3), Some(4), None];
        let exchange = |id: u32| Exchange {
            id: ExchangeId(id),
            producer: StageId(id),
            consumer: consumers[id as usize].map(StageId),
            kind: kind(id),
            keys: String::new(),
        };
        let template = PlanTemplate { stages: (0..5).map(stage).collect(), exchanges: (0..5).map(exchange).collect() };
        template.validate().expect("a valid plan");
        template
    }

    fn inputs_of(template: &PlanTemplate, stage: usize) -> Vec<(u32, bool)> {
        template.stages[stage].inputs.iter().map(|i| (i.exchange.0, i.replicated)).collect()
    }

    #[test]
    fn a_chain_becomes_one_stage_in_either_order() {
        let mut upper_first = chain();
        assert!(upper_first.fuse(StageId(4), 1));
        assert_eq!(inputs_of(&upper_first, 4), [(1, true), (0, false), (2, false)]);
        assert!(upper_first.fuse(StageId(4), 2));
        let mut lower_first = chain();
        assert!(lower_first.fuse(StageId(3), 1));
        assert!(lower_first.fuse(StageId(4), 1));
        for template in [&upper_first, &lower_first] {
            assert_eq!(inputs_of(template, 4), [(1, true), (0, true)]);
            let stage = &template.stages[4];
            assert_eq!(stage.sources.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["t2"]);
            let parts: Vec<_> = stage.parts.iter().map(|p| (p.fragment[0], p.inputs.clone())).collect();
            let expected =
                [(4, vec![Leaf::Input(0), Leaf::Part(1)]), (3, vec![Leaf::Input(1), Leaf::Part(2)]), (2, vec![])];
            assert_eq!(parts, expected);
            assert!(parts_fit(&stage.parts, stage.inputs.len()));
            assert_eq!(template.exchange(ExchangeId(0)).consumer, Some(StageId(4)));
            assert_eq!(stage.name, "read → n2 → n3 → n4");
            assert_eq!(stage.determinism, Determinism::OrderFree);
        }
        assert_eq!(lower_first.stages[2].fused_into, Some(StageId(3)));
        assert_eq!(lower_first.stages[3].fused_into, Some(StageId(4)));
    }

    #[test]
    fn what_is_fused_is_not_fused_again() {
        let mut template = chain();
        assert!(template.fuse(StageId(3), 1));
        let before = template.clone();
        assert!(!template.fuse(StageId(3), 7), "no such input");
        assert!(template.fuse(StageId(4), 1));
        assert!(!template.fuse(StageId(3), 0), "s3 is part of s4");
        assert_ne!(before, template);
    }

    #[test]
    fn parts_that_are_no_tree_do_not_fit() {
        let part = |inputs: Vec<Leaf>| Part { fragment: Arc::from([]), inputs, first_source: 0 };
        assert!(parts_fit(&[part(vec![Leaf::Input(0), Leaf::Part(1)]), part(vec![Leaf::Input(1)])], 2));
        assert!(!parts_fit(&[], 0), "no part");
        assert!(!parts_fit(&[part(vec![Leaf::Part(0)])], 0), "a part in itself");
        assert!(!parts_fit(&[part(vec![Leaf::Part(2)]), part(vec![])], 0), "no such part");
        assert!(!parts_fit(&[part(vec![]), part(vec![])], 0), "a part that stands nowhere");
        assert!(!parts_fit(&[part(vec![Leaf::Input(0), Leaf::Input(0)])], 1), "an input read twice");
        assert!(!parts_fit(&[part(vec![Leaf::Input(0)])], 2), "an input read by nobody");
    }
}
