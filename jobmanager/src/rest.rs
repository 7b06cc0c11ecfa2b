//! REST: the views of the gRPC API as JSON, and one page that draws them. Nothing can be changed here.
//!
//! `GET /health` and the page at `/` are open; `/overview`, `/jobs` and `/jobs/{id}`, where the page has all its data from, need the
//! token when one is set.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use thalweg_rpc::views::{WallClock, job_response, job_summary};
use thalweg_rpc::{Problem, RequireToken};
use thalweg_types::JobId;
use tokio::net::TcpListener;

use crate::driver::Driver;

#[derive(Clone)]
struct Rest {
    driver: Driver,
    token: RequireToken,
}

/// Serves until `stop` is done.
pub(crate) async fn serve(
    driver: Driver,
    token: RequireToken,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(driver, token)).with_graceful_shutdown(stop).await
}

fn router(driver: Driver, token: RequireToken) -> Router {
    let rest = Rest { driver, token };
    Router::new()
        .route("/overview", get(overview))
        .route("/jobs", get(jobs))
        .route("/jobs/{id}", get(job))
        .route_layer(axum::middleware::from_fn_with_state(rest.clone(), authorize))
        .route("/", get(async || page("text/html; charset=utf-8", include_str!("rest/page.html"))))
        .route("/page.css", get(async || page("text/css; charset=utf-8", include_str!("rest/page.css"))))
        .route("/page.js", get(async || page("text/javascript; charset=utf-8", include_str!("rest/page.js"))))
        .route("/health", get(async || Json(json!({ "status": "serving" }))))
        .fallback(async || {
            Failure(Problem::NotFound {
                what: "page, try /, /overview, /jobs, /jobs/{id} or /health".into(),
                id: String::new(),
            })
        })
        .with_state(rest)
}

/// A file of the page. The browser is told to load and run nothing from elsewhere.
fn page(media_type: &'static str, text: &'static str) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

async fn authorize(State(rest): State<Rest>, headers: HeaderMap, request: Request, next: Next) -> Response {
    match rest.token.check(headers.get(header::AUTHORIZATION).map(|value| value.as_bytes())) {
        Ok(()) => next.run(request).await,
        Err(problem) => Failure(problem).into_response(),
    }
}

async fn overview(State(rest): State<Rest>) -> Result<Json<Value>, Failure> {
    let overview = rest.driver.overview().await?;
    let task_managers = overview.task_managers.iter().map(|tm| {
        json!({
            "id": tm.tm.to_string(),
            "data_address": tm.data_address,
            "slots_total": tm.slots,
            "slots_free": tm.free,
            "managed_memory_bytes": tm.managed_memory,
            "last_heartbeat_ms_ago": tm.last_heard.map(|ago| ago.as_millis() as u64),
        })
    });
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": overview.uptime.as_millis() as u64,
        "task_managers": task_managers.collect::<Vec<_>>(),
        "slots_total": overview.task_managers.iter().map(|tm| tm.slots).sum::<u32>(),
        "slots_free": overview.task_managers.iter().map(|tm| tm.free).sum::<u32>(),
        "jobs_running": overview.running,
        "jobs_finished": overview.finished,
        "jobs_failed": overview.failed,
        "jobs_cancelled": overview.cancelled,
    })))
}

async fn jobs(State(rest): State<Rest>) -> Result<Json<Value>, Failure> {
    let clock = rest.driver.wall_clock();
    let jobs = rest.driver.jobs().await?;
    let jobs = jobs.iter().map(|job| summary(&job_summary(job, clock)));
    Ok(Json(json!({ "jobs": jobs.collect::<Vec<_>>() })))
}

async fn job(State(rest): State<Rest>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let id: JobId = id
        .parse()
        .map_err(|error: thalweg_types::ParseIdError| Problem::InvalidArgument { message: error.to_string() })?;
    let details = rest.driver.job(id).await?;
    let clock: WallClock = rest.driver.wall_clock();
    let job = job_response(&details.brief, &details.view, &details.plan, clock);
    let stages = job.stages.iter().map(|stage| {
        json!({
            "stage": stage.stage,
            "name": stage.name,
            "parallelism": stage.parallelism,
            "running": stage.running,
            "finished": stage.finished,
            "rows": stage.rows,
            "bytes": stage.bytes,
            "duration_ms": stage.duration_ms,
            "network_bytes": stage.network_bytes,
            "spilled_bytes": stage.spilled_bytes,
            "cpu_nanos": stage.cpu_nanos,
            "inputs": stage.inputs.iter().map(|i| json!({
                "producer": i.producer, "replicated": i.replicated, "rows": i.rows, "network_bytes": i.network_bytes,
            })).collect::<Vec<_>>(),
            "runs_in": stage.runs_in,
            "output": stage.output,
            "attempts": stage.attempts.iter().map(|a| json!({
                "task": a.task, "attempt": a.attempt, "task_manager": a.task_manager, "state": a.state,
                "started_at_ms": a.started_at_ms, "duration_ms": a.duration_ms, "rows": a.rows, "bytes": a.bytes,
                "cause": a.cause,
            })).collect::<Vec<_>>(),
            "operators": stage.operators.iter().map(|o| json!({
                "depth": o.depth, "name": o.name, "output_rows": o.output_rows, "elapsed_nanos": o.elapsed_nanos,
                "spilled_bytes": o.spilled_bytes, "filtered_rows": o.filtered_rows,
            })).collect::<Vec<_>>(),
        })
    });
    let decisions = job.decisions.iter().map(
        |d| json!({ "at_ms": d.at_ms, "stage": d.stage, "rule": d.rule, "measured": d.measured, "outcome": d.outcome }),
    );
    Ok(Json(json!({
        "summary": job.summary.as_ref().map(summary),
        "stages": stages.collect::<Vec<_>>(),
        "decisions": decisions.collect::<Vec<_>>(),
        "plan": job.plan,
    })))
}

fn summary(job: &thalweg_proto::v1::JobSummary) -> Value {
    let state = job.state().as_str_name().trim_start_matches("JOB_STATE_").to_ascii_lowercase();
    json!({
        "job_id": job.job_id,
        "state": state,
        "statement": job.statement,
        "submitted_at_ms": job.submitted_at_ms,
        "duration_ms": job.duration_ms,
        "tasks_finished": job.tasks_finished,
        "tasks_total": job.tasks_total,
        "failure": job.failure,
    })
}

struct Failure(Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            Problem::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
            Problem::InvalidArgument { .. } => StatusCode::BAD_REQUEST,
            Problem::NotFound { .. } => StatusCode::NOT_FOUND,
            Problem::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let body = Json(json!({ "error": { "kind": self.0.kind(), "message": self.0.to_string() } }));
        (status, body).into_response()
    }
}
