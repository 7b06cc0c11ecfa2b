//! What a TaskManager is made of, put together once per process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_config::{Config, MemoryError, MemoryLayout, default_process_size, memory_layout};
use thalweg_connectors::AccessRules;
use thalweg_exec::environment::TaskEnvironment;
use thalweg_rpc::link::FromTaskManager;
use thalweg_shuffle::flight::{ChannelError, ChannelOptions, DataChannels, NetworkBudget};
use thalweg_shuffle::{BroadcastCache, Budget, ExchangeStore, StoreOptions};
use thalweg_types::MapOutputKey;
use tokio::net::TcpListener;

use crate::StartOptions;
use crate::shared::{OperatorMemory, Shared};
use crate::workdir::{WorkDirError, WorkDirs};

/// Why a TaskManager does not start. Names the key to change.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address} ({key}): {source}")]
    Bind { address: String, key: &'static str, source: std::io::Error },
    #[error(transparent)]
    WorkDir(#[from] WorkDirError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("cannot open the exchange store: {0}")]
    Store(#[from] thalweg_shuffle::Error),
    #[error("cannot prepare the execution environment: {0}")]
    Environment(#[from] datafusion::error::DataFusionError),
    #[error("filesystem.allowed-roots names {path:?}, which cannot be resolved: {source}")]
    AllowedRoot { path: PathBuf, source: std::io::Error },
    #[error("cannot prepare the data plane's connections: {0}")]
    Channels(#[from] ChannelError),
    #[error("cannot start a thread pool: {0}")]
    Threads(std::io::Error),
}

/// The pool that runs operators: one thread per slot.
pub struct CpuPool(Option<tokio::runtime::Runtime>);

impl CpuPool {
    fn new(threads: usize) -> Result<Self, StartError> {
        let pool = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("thalweg-cpu")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        Ok(Self(Some(pool)))
    }

    pub fn handle(&self) -> tokio::runtime::Handle {
        self.0.as_ref().expect("taken only when dropped").handle().clone()
    }
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        // an async context must not wait for the threads
        if let Some(pool) = self.0.take() {
            pool.shutdown_background();
        }
    }
}

/// Everything but the link.
pub struct Parts {
    pub resource: String,
    pub data_address: SocketAddr,
    /// As others reach it.
    pub advertised: String,
    /// Of the data plane; every registration serves on a clone of it.
    pub listener: std::net::TcpListener,
    pub token: Option<Arc<str>>,
    pub shared: Arc<Shared>,
    pub cpu: CpuPool,
    slots: u32,
    layout: MemoryLayout,
    // last: the store's files go before their directory
    _workdirs: WorkDirs,
}

impl Parts {
    pub async fn make(config: &Config, options: &StartOptions) -> Result<Self, StartError> {
        let taskmanager = &config.taskmanager;
        let process = options.memory.or(taskmanager.memory.process_size).unwrap_or_else(default_process_size);
        let layout = memory_layout(process, &taskmanager.memory)?;
        let slots = taskmanager.slots.max(1);
        let bind = (taskmanager.bind_host.as_str(), taskmanager.data_port);
        let listener = TcpListener::bind(bind).await.map_err(|source| bind_error(bind, source))?;
        let data_address = listener.local_addr().map_err(|source| bind_error(bind, source))?;
        let host = taskmanager.host.clone().unwrap_or_else(|| data_address.ip().to_string());
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let resource = options.name.clone().or_else(|| taskmanager.resource_id.clone());
        let resource = resource.unwrap_or_else(|| format!("{:08x}", random_u64() as u32));

        let workdirs = WorkDirs::create(&config.tmp_dirs, &format!("{:016x}", random_u64()))?;
        let budget = Arc::new(Budget::new(layout.managed));
        let store_options = StoreOptions { spill_dirs: workdirs.subdirs("exchange")?, ..StoreOptions::default() };
        let store = ExchangeStore::new(store_options, Arc::clone(&budget))?;
        let token: Option<Arc<str>> = config.security.token.as_ref().map(|t| Arc::from(t.expose()));
        let channels =
            ChannelOptions { token: token.clone(), dead_after: config.heartbeat.timeout, ..ChannelOptions::default() };
        let network = NetworkBudget::new(usize::try_from(layout.network).unwrap_or(usize::MAX));
        let shared = Shared {
            broadcasts: Arc::new(BroadcastCache::new(Arc::clone(&budget))),
            channels: Arc::new(DataChannels::new(channels, network)?),
            environment: TaskEnvironment::new(workdirs.subdirs("operators")?)?,
            access: access_rules(config)?,
            operators: Arc::new(OperatorMemory::new(Arc::clone(&budget))),
            slot_memory: layout.managed / u64::from(slots),
            store,
        };
        Ok(Self {
            resource,
            data_address,
            advertised: format!("{host}:{}", data_address.port()),
            listener: listener.into_std().map_err(|source| bind_error(bind, source))?,
            token,
            shared: Arc::new(shared),
            cpu: CpuPool::new(slots as usize)?,
            slots,
            layout,
            _workdirs: workdirs,
        })
    }

    pub fn registration(&self, incarnation: u64, held: Vec<MapOutputKey>) -> FromTaskManager {
        FromTaskManager::Register {
            resource: self.resource.clone(),
            incarnation,
            data_address: self.advertised.clone(),
            slots: self.slots,
            managed_memory: self.layout.managed,
            slot_memory: self.shared.slot_memory,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            held,
        }
    }
}

fn bind_error(bind: (&str, u16), source: std::io::Error) -> StartError {
    let address = format!("{}:{}", bind.0, bind.1);
    StartError::Bind { address, key: "taskmanager.bind-host, taskmanager.data.port", source }
}

/// The directories that tables may be read from, resolved.
fn access_rules(config: &Config) -> Result<AccessRules, StartError> {
    let roots = config.filesystem.allowed_roots.clone().unwrap_or_default();
    let resolve =
        |path: PathBuf| path.canonicalize().map_err(|source| StartError::AllowedRoot { path: path.clone(), source });
    Ok(AccessRules { allowed_roots: roots.into_iter().map(resolve).collect::<Result<_, _>>()? })
}

/// 64 bits that no other process has.
pub fn random_u64() -> u64 {
    getrandom::u64().expect("the operating system has randomness")
}
