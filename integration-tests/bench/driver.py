"""Runs statements on an engine reached through Python: driver.py ENGINE DATADIR.

Speaks the line protocol of examples/query_driver.rs: `QUERY FILE TEXT` is answered by `OK MICROSECONDS ROWS` or `ERR MESSAGE`, timed from
sending the text to holding all rows. Each folder below DATADIR is a table of parquet files. DRIVER_THREADS (2) bounds the in-process engines.
"""
import datetime
import decimal
import os
import sys
import time
from pathlib import Path


def field(value):
    if value is None:
        return ""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    text = str(value)
    if text == "" or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def duckdb_engine(data, tables, threads):
    import duckdb
    connection = duckdb.connect(config={"threads": threads})
    for table in tables:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{data}/{table}/*.parquet')")

    def run(query):
        result = connection.execute(query)
        return [c[0] for c in result.description], result.fetchall()
    return run


def datafusion_engine(data, tables, threads):
    import datafusion
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    for table in tables:
        context.register_parquet(table, f"{data}/{table}/")

    def run(query):
        frame = context.sql(query)
        return frame.schema().names, frame.collect()
    return run


def spark_engine(data, tables, remote):
    from pyspark.sql import SparkSession
    builder = SparkSession.builder
    if remote:
        spark = builder.remote(remote).getOrCreate()
    else:
        builder = builder.master(os.environ["SPARK_MASTER"]).appName("bench")
        for pair in filter(None, os.environ.get("SPARK_CONF", "").split(";")):
            builder = builder.config(*pair.split("=", 1))
        spark = builder.getOrCreate()
    for table in tables:
        spark.read.parquet(f"{data}/{table}").createOrReplaceTempView(table)

    def run(query):
        frame = spark.sql(query)
        return frame.columns, [tuple(row) for row in frame.collect()]
    return run


def rows_of(result):
    """Rows of tuples; record batches are taken apart."""
    if result and hasattr(result[0], "to_pydict"):
        return [row for batch in result for row in zip(*(column.to_pylist() for column in batch.columns))]
    return result


def main():
    engine, data = sys.argv[1], Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to the log
    tables = sorted(p.name for p in data.iterdir() if p.is_dir())
    threads = int(os.environ.get("DRIVER_THREADS", "2"))
    run = {"duckdb": lambda: duckdb_engine(data, tables, threads),
           "datafusion": lambda: datafusion_engine(data, tables, threads),
           "spark": lambda: spark_engine(data, tables, None),
           "sail": lambda: spark_engine(data, tables, os.environ.get("SAIL_REMOTE"))}[engine]()
    answers.write("OK 0 0\n")
    for line in sys.stdin:
        _, path, query = line.rstrip("\n").split(" ", 2)
        try:
            start = time.perf_counter()
            names, result = run(query)
            took = time.perf_counter() - start
            rows = rows_of(result)
            with open(path, "w", newline="") as f:
                f.write(",".join(map(field, names)) + "\n")
                f.writelines(",".join(map(field, row)) + "\n" for row in rows)
            answers.write(f"OK {int(took * 1e6)} {len(rows)}\n")
        except Exception as error:  # whatever the engine raises is its answer
            answers.write("ERR " + " ".join(str(error).split())[:600] + "\n")


if __name__ == "__main__":
    main()
