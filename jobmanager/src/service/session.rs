//! `SessionService`.

use std::collections::{BTreeMap, HashMap};

use thalweg_proto::v1;
use thalweg_proto::v1::session_service_server::SessionService;
use tonic::{Request, Response, Status};

use super::{Services, stream_bytes};
use crate::sessions::Executed;

#[tonic::async_trait]
impl SessionService for Services {
    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> Result<Response<v1::OpenSessionResponse>, Status> {
        let session_id = self.sessions.open(&ordered(request.into_inner().settings))?;
        Ok(Response::new(v1::OpenSessionResponse { session_id }))
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> Result<Response<v1::CloseSessionResponse>, Status> {
        self.sessions.close(&request.into_inner().session_id)?;
        Ok(Response::new(v1::CloseSessionResponse {}))
    }

    async fn set(&self, request: Request<v1::SetRequest>) -> Result<Response<v1::SetResponse>, Status> {
        let request = request.into_inner();
        let session = self.sessions.get(&request.session_id)?;
        let mut session = session.lock().await;
        let notes = session.change_settings(&ordered(request.set), &request.reset)?;
        let settings = session.settings().changed().clone().into_iter().collect();
        Ok(Response::new(v1::SetResponse { settings, notes }))
    }

    async fn execute(&self, request: Request<v1::ExecuteRequest>) -> Result<Response<v1::ExecuteResponse>, Status> {
        use v1::execute_response::Result as Outcome;
        let request = request.into_inner();
        let session = self.sessions.get(&request.session_id)?;
        let (executed, notes) = session.lock().await.execute(&request.statement).await?;
        let result = match executed {
            Executed::Done(text) => Outcome::Acknowledgement(v1::Acknowledgement { text }),
            Executed::Rows(batch) => Outcome::Rows(stream_bytes(&batch.schema(), &batch)?),
            Executed::Query { job, schema, recoverable } => {
                Outcome::Query(v1::QueryHandle { recoverable, ..self.handle_of(job, &schema)? })
            }
        };
        Ok(Response::new(v1::ExecuteResponse { result: Some(result), notes }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let request = request.into_inner();
        let session = self.sessions.get(&request.session_id)?;
        let plan = session.lock().await.explain(&request.query).await?;
        Ok(Response::new(v1::ExplainResponse { plan }))
    }
}

pub(super) fn ordered(settings: HashMap<String, String>) -> BTreeMap<String, String> {
    settings.into_iter().collect()
}
