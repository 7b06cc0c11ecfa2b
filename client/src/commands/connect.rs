//! Which cluster a command talks to, and with which token.
//!
//! Address: `--jobmanager`, else `jobmanager.rpc.address` and `.port` of `--config` or `-D`, else `THALWEG_JOBMANAGER`, else
//! `localhost:6123`. Token: as the configuration says (`security.token`, `security.token-file`, `THALWEG_SECURITY_TOKEN`).

use std::time::Duration;

use thalweg_client::Client;
use thalweg_config::{Config, Secret};

use crate::args::{Connection, Settings};
use crate::exit::CliError;

const ADDRESS_VARIABLE: &str = "THALWEG_JOBMANAGER";
const DEFAULT_ADDRESS: &str = "localhost:6123";
/// How long the connecting and a short call may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Connects as the arguments say.
pub async fn connect(connection: &Connection, settings: &Settings) -> Result<Client, CliError> {
    let mut define = settings.define.clone();
    if let Some(file) = &connection.token_file {
        define.push(("security.token-file".to_owned(), file.display().to_string()));
    }
    let loaded = Config::load(settings.config.as_deref(), &define)?;
    let configured = settings.config.is_some() || define.iter().any(|(key, _)| key.starts_with("jobmanager."));
    let address = match (&connection.jobmanager, configured) {
        (Some(address), _) => address.clone(),
        (None, true) => address_of(&loaded.config),
        (None, false) => std::env::var(ADDRESS_VARIABLE).unwrap_or_else(|_| DEFAULT_ADDRESS.to_owned()),
    };
    connect_to(&address, loaded.config.security.token.as_ref()).await
}

/// Connects to an address that is known.
pub async fn connect_to(address: &str, token: Option<&Secret>) -> Result<Client, CliError> {
    Ok(Client::connect(address, token.map(Secret::expose), DEADLINE).await?)
}

/// Where the configuration says that the JobManager is.
pub fn address_of(config: &Config) -> String {
    let (host, port) = (&config.jobmanager.rpc_address, config.jobmanager.rpc_port);
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_gets_brackets() {
        let mut config = Config::default();
        config.jobmanager.rpc_port = 7;
        for (host, address) in [("h", "h:7"), ("::1", "[::1]:7"), ("[::1]", "[::1]:7")] {
            config.jobmanager.rpc_address = host.to_owned();
            assert_eq!(address_of(&config), address);
        }
    }
}
