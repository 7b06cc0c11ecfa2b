//! A template is checked once, before anything believes it.

use thalweg_types::{ExchangeId, StageId};

use crate::operators::parts_fit;
use crate::template::{ExchangeKind, Parallelism, PlanTemplate};

/// What is wrong with a template. Always a defect of the planner, never of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    #[error("a plan needs at least one stage")]
    Empty,
    #[error("stage {0} does not stand at its own position")]
    StagePosition(StageId),
    #[error("exchange {0} does not stand at its own position")]
    ExchangePosition(ExchangeId),
    #[error("stage {stage} and exchange {exchange} disagree about who produces it")]
    Producer { stage: StageId, exchange: ExchangeId },
    #[error("exchange {exchange} is read by {found} inputs, expected {expected}")]
    Consumers { exchange: ExchangeId, found: usize, expected: usize },
    #[error("stage {stage} reads exchange {exchange}, which is produced after it or names another consumer")]
    Order { stage: StageId, exchange: ExchangeId },
    #[error("hash exchanges have {0} and {1} subpartitions, expected one number")]
    Subpartitions(u32, u32),
    #[error("stage {0} gathers an input and must be a single task")]
    GatherNeedsSingle(StageId),
    #[error("a stage may run at parallelism 1 or more, {0} has 0")]
    ZeroParallelism(StageId),
    #[error("stage {stage} does not read the broadcast exchange {exchange} whole")]
    Replicated { stage: StageId, exchange: ExchangeId },
    #[error("the operators of stage {0} do not read each of its inputs once")]
    Parts(StageId),
    #[error("the last stage, and only it, writes the result: {0}")]
    Result(ExchangeId),
}

impl PlanTemplate {
    /// Checks everything the crate header promises.
    pub fn validate(&self) -> Result<(), InvalidTemplate> {
        let last = self.stages.last().ok_or(InvalidTemplate::Empty)?;
        self.validate_exchanges()?;
        for (i, stage) in self.stages.iter().enumerate() {
            if stage.id.index() != i {
                return Err(InvalidTemplate::StagePosition(stage.id));
            }
            if stage.parallelism == Parallelism::Fixed(0) {
                return Err(InvalidTemplate::ZeroParallelism(stage.id));
            }
            let produced = self.exchanges.get(stage.output.index()).is_some_and(|x| x.producer == stage.id);
            if !produced {
                return Err(InvalidTemplate::Producer { stage: stage.id, exchange: stage.output });
            }
            if !parts_fit(&stage.parts, stage.inputs.len()) {
                return Err(InvalidTemplate::Parts(stage.id));
            }
            for input in &stage.inputs {
                let wrong = InvalidTemplate::Order { stage: stage.id, exchange: input.exchange };
                let exchange = self.exchanges.get(input.exchange.index()).ok_or(wrong.clone())?;
                if exchange.producer >= stage.id || exchange.consumer != Some(stage.id) {
                    return Err(wrong);
                }
                if exchange.kind == ExchangeKind::Broadcast && !input.replicated {
                    return Err(InvalidTemplate::Replicated { stage: stage.id, exchange: exchange.id });
                }
                if exchange.kind == ExchangeKind::Gather && stage.parallelism != Parallelism::Single {
                    return Err(InvalidTemplate::GatherNeedsSingle(stage.id));
                }
            }
        }
        match self.exchanges[last.output.index()].kind {
            ExchangeKind::Result => Ok(()),
            _ => Err(InvalidTemplate::Result(last.output)),
        }
    }

    fn validate_exchanges(&self) -> Result<(), InvalidTemplate> {
        let mut subpartitions = None;
        for (i, exchange) in self.exchanges.iter().enumerate() {
            if exchange.id.index() != i {
                return Err(InvalidTemplate::ExchangePosition(exchange.id));
            }
            let producer = self.stages.get(exchange.producer.index());
            if producer.is_none_or(|s| s.output != exchange.id) {
                return Err(InvalidTemplate::Producer { stage: exchange.producer, exchange: exchange.id });
            }
            if let ExchangeKind::Hash { subpartitions: n } = exchange.kind {
                let expected = *subpartitions.get_or_insert(n);
                if expected != n || n == 0 {
                    return Err(InvalidTemplate::Subpartitions(expected, n));
                }
            }
            if (exchange.kind == ExchangeKind::Result) != exchange.consumer.is_none() {
                return Err(InvalidTemplate::Result(exchange.id));
            }
            let found = self.stages.iter().flat_map(|s| &s.inputs).filter(|i| i.exchange == exchange.id).count();
            let expected = usize::from(exchange.consumer.is_some());
            if found != expected {
                return Err(InvalidTemplate::Consumers { exchange: exchange.id, found, expected });
            }
        }
        Ok(())
    }
}
