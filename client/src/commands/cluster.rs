//! `thalweg cluster`.

use thalweg_client::format::table::{Align, Table, visible};
use thalweg_client::format::units;
use thalweg_client::view::ClusterOverview;

use crate::args::Remote;
use crate::commands::connect::connect;
use crate::commands::jobs::json;
use crate::exit::CliError;
use crate::terminal::print;

pub async fn run(remote: Remote) -> Result<(), CliError> {
    let client = connect(&remote.connection, &remote.settings).await?;
    let overview = client.overview().await?;
    print(&if remote.json { json(&overview)? } else { overview_text(&overview) })
}

fn overview_text(cluster: &ClusterOverview) -> String {
    let mut out = format!(
        "thalweg {}, up {}\nslots: {} of {} free\njobs: {} running, {} finished, {} failed, {} cancelled\n",
        visible(&cluster.version),
        units::duration_ms(cluster.uptime_ms),
        cluster.slots_free,
        cluster.slots_total,
        cluster.jobs_running,
        cluster.jobs_finished,
        cluster.jobs_failed,
        cluster.jobs_cancelled,
    );
    let mut table = Table::with_columns(&[
        ("taskmanager", Align::Left),
        ("data address", Align::Left),
        ("slots", Align::Right),
        ("free", Align::Right),
        ("managed memory", Align::Right),
        ("heartbeat", Align::Right),
    ]);
    for tm in &cluster.task_managers {
        let cells = vec![
            visible(&tm.id),
            visible(&tm.data_address),
            tm.slots_total.to_string(),
            tm.slots_free.to_string(),
            units::bytes(tm.managed_memory_bytes),
            format!("{} ago", units::duration_ms(tm.last_heartbeat_ms_ago)),
        ];
        table.row(cells, &mut out);
    }
    table.end(&mut out);
    out
}
