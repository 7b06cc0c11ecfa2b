//! `ClusterService`.

use std::time::Duration;

use thalweg_proto::v1;
use thalweg_proto::v1::cluster_service_server::ClusterService;
use tonic::{Request, Response, Status};

use super::Services;

#[tonic::async_trait]
impl ClusterService for Services {
    async fn get_overview(
        &self,
        _: Request<v1::GetOverviewRequest>,
    ) -> Result<Response<v1::GetOverviewResponse>, Status> {
        let overview = self.driver.overview().await?;
        let task_managers = overview.task_managers.iter().map(|tm| v1::TaskManagerInfo {
            id: tm.tm.to_string(),
            data_address: tm.data_address.clone(),
            slots_total: tm.slots,
            slots_free: tm.free,
            managed_memory_bytes: tm.managed_memory,
            last_heartbeat_ms_ago: tm.last_heard.map_or(0, millis),
        });
        Ok(Response::new(v1::GetOverviewResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(overview.uptime),
            task_managers: task_managers.collect(),
            slots_total: overview.task_managers.iter().map(|tm| tm.slots).sum(),
            slots_free: overview.task_managers.iter().map(|tm| tm.free).sum(),
            jobs_running: overview.running,
            jobs_finished: overview.finished,
            jobs_failed: overview.failed,
            jobs_cancelled: overview.cancelled,
        }))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
