//! Calls that are made again when the JobManager is lost, for jobs that go on without it.

use std::time::{Duration, Instant};

use futures::stream::{BoxStream, StreamExt};
use thalweg_runtime::Backoff;

use crate::error::{Error, ErrorKind};

/// How long a JobManager may be away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Counts how long nobody answers.
#[derive(Debug)]
pub(crate) struct Absence {
    since: Option<Instant>,
    backoff: Backoff,
}

impl Absence {
    pub fn new() -> Self {
        Self { since: None, backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT) }
    }

    /// Somebody answered.
    pub fn over(&mut self) {
        self.since = None;
        self.backoff.reset();
    }

    /// Waits before the next try; gives the error back if there is to be none.
    pub async fn bear(&mut self, error: Error) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(Instant::now);
        match self.backoff.next_wait().filter(|_| error.kind() == ErrorKind::NotReachable && since.elapsed() < PATIENCE)
        {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
            None => Err(error),
        }
    }
}

/// The items of what `open` opens, which is opened again when the JobManager is lost before the first item.
pub(crate) fn until_the_first<T: Send + 'static>(
    open: impl Fn() -> BoxStream<'static, Result<T, Error>> + Send + 'static,
) -> BoxStream<'static, Result<T, Error>> {
    struct State<T, F> {
        open: F,
        items: BoxStream<'static, Result<T, Error>>,
        /// `None` once something came.
        absence: Option<Absence>,
    }
    let state = State { items: open(), open, absence: Some(Absence::new()) };
    let items = futures::stream::try_unfold(state, |mut state| async move {
        loop {
            match (state.items.next().await.transpose(), &mut state.absence) {
                (Ok(item), absence) => {
                    *absence = None;
                    return Ok(item.map(|item| (item, state)));
                }
                (Err(error), Some(absence)) => {
                    absence.bear(error).await?;
                    state.items = (state.open)();
                }
                (Err(error), None) => return Err(error),
            }
        }
    });
    items.boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use tonic::Status;

    /// Opens `streams` one after the other and collects what comes.
    async fn collect(streams: Vec<Vec<Result<u32, Status>>>) -> (Vec<u32>, Option<ErrorKind>, usize) {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let open = move || {
            let items = streams.get(count.fetch_add(1, Ordering::Relaxed)).cloned().unwrap_or_default();
            let items = items.into_iter().map(|item| item.map_err(|status| Error::from_status("h:1", status)));
            futures::stream::iter(items.collect::<Vec<_>>()).boxed()
        };
        let mut items = until_the_first(open);
        let (mut seen, mut failed) = (Vec::new(), None);
        while let Some(item) = items.next().await {
            match item {
                Ok(item) => seen.push(item),
                Err(error) => failed = Some(error.kind()),
            }
        }
        (seen, failed, opened.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn it_is_opened_again_only_for_a_lost_jobmanager_and_before_the_first_item() {
        let gone = || Err(Status::unavailable("gone"));
        let never_twice = vec![vec![gone()], vec![gone()], vec![Ok(1), Ok(2)]];
        assert_eq!(collect(never_twice).await, (vec![1, 2], None, 3));
        let in_the_middle = vec![vec![Ok(1), gone()], vec![Ok(1)]];
        assert_eq!(collect(in_the_middle).await, (vec![1], Some(ErrorKind::NotReachable), 1));
        let refused = vec![vec![Err(Status::not_found("no job"))], vec![Ok(1)]];
        assert_eq!(collect(refused).await, (vec![], Some(ErrorKind::Sql), 1));
        assert_eq!(collect(vec![vec![]]).await, (vec![], None, 1));
    }
}
