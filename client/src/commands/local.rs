//! `thalweg local`: a whole cluster in this process, and SQL on it.

use thalweg_client::Client;

use crate::args::LocalArgs;
use crate::commands::connect::connect_to;
use crate::commands::daemon::{Embedded, Size};
use crate::commands::sql::run_script;
use crate::exit::CliError;
use crate::interrupt::Interrupts;
use crate::terminal::tell;

pub async fn run(args: LocalArgs) -> Result<(), CliError> {
    let interrupts = Interrupts::new().map_err(CliError::start)?;
    let size = Size { task_managers: args.task_managers, slots: args.slots, serve: args.serve };
    let (cluster, config) = Embedded::start(&args.settings, size).await?;
    let address = cluster.rpc_address().to_string();
    if args.serve {
        tell(&format!("jobmanager at {address}, dashboard at http://{}", cluster.rest_address()));
    }
    let result = match connect_to(&reachable(&address), config.security.token.as_ref()).await {
        Ok(client) => use_cluster(client, &args, interrupts).await,
        Err(error) => Err(error),
    };
    cluster.shutdown().await;
    result
}

async fn use_cluster(client: Client, args: &LocalArgs, mut interrupts: Interrupts) -> Result<(), CliError> {
    let mut script = args.script.clone();
    if args.serve && script.file.is_none() {
        // a cluster for others asks nobody for statements
        script.execute.get_or_insert_default();
    }
    run_script(client, Vec::new(), &script, &mut interrupts).await?;
    if args.serve {
        interrupts.next().await;
    }
    Ok(())
}

/// One that binds all addresses is reached at this host's own.
fn reachable(address: &str) -> String {
    match address.rsplit_once(':') {
        Some(("0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_include_this_host() {
        assert_eq!(reachable("0.0.0.0:6123"), "127.0.0.1:6123");
        assert_eq!(reachable("[::]:6123"), "[::1]:6123");
        assert_eq!(reachable("10.0.0.1:6123"), "10.0.0.1:6123");
    }
}
