//! `point_latency HOST:PORT [COUNT]`: how long a query of one row takes over an open session, from sending it to holding the row.
//!
//! Prints one line of JSON: `queries`, and `p50_us`, `p90_us`, `p99_us`, `max_us` in microseconds. The first tenth warms up and is not counted.
#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

use std::time::Instant;

use thalweg_integration_tests::wire::Wire;

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let address = args.next().ok_or("usage: point_latency HOST:PORT [COUNT]")?;
    let count = args.next().map_or(Ok(500), |n| n.parse::<usize>()).map_err(|e| format!("COUNT: {e}"))?.max(1);
    let wire = Wire::new(&address);
    let session = wire.open_session(&[])?;
    session
        .run("CREATE TABLE points (id INT, name STRING) WITH ('connector'='values','rows'='[[1,\"a\"],[2,\"b\"]]')")?;
    let mut micros = Vec::with_capacity(count);
    for i in 0..count + count / 10 {
        let start = Instant::now();
        let rows: usize = session.run("SELECT name FROM points WHERE id = 2")?.iter().map(|b| b.num_rows()).sum();
        let took = start.elapsed().as_micros();
        if rows != 1 {
            return Err(format!("query {i} has {rows} rows, not 1"));
        }
        if i >= count / 10 {
            micros.push(took);
        }
    }
    micros.sort_unstable();
    let at = |per_cent: usize| micros[(micros.len() * per_cent / 100).min(micros.len() - 1)];
    let (p50, p90, p99, max) = (at(50), at(90), at(99), at(100));
    println!("{{\"queries\":{count},\"p50_us\":{p50},\"p90_us\":{p90},\"p99_us\":{p99},\"max_us\":{max}}}");
    Ok(())
}
