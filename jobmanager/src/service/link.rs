//! `TaskManagerLink`: a TaskManager dials in.

use thalweg_proto::v1;
use thalweg_proto::v1::task_manager_link_server::TaskManagerLink;
use thalweg_rpc::link::{ToTaskManagerStream, serve};
use tonic::{Request, Response, Status, Streaming};

use super::Services;

#[tonic::async_trait]
impl TaskManagerLink for Services {
    type LinkStream = ToTaskManagerStream;

    async fn link(
        &self,
        request: Request<Streaming<v1::FromTaskManager>>,
    ) -> Result<Response<ToTaskManagerStream>, Status> {
        let peer = request.remote_addr().map_or_else(|| "unknown".to_owned(), |address| address.to_string());
        let (end, stream) = serve(format!("taskmanager {peer}"), request.into_inner(), self.heartbeats);
        self.links.start(end, false);
        Ok(Response::new(stream))
    }
}
