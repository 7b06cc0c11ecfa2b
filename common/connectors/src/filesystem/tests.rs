//! Fixtures, and what holds for every format: paths, patterns, options.

mod csv;
mod parquet;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use thalweg_types::Fault;

use crate::test_util::{definition, read_text, rules_for, schema};
use crate::{AccessRules, Error, PathProblem, TableSource, create_table};

/// Writes a column `a` of type BIGINT, one row group for each slice.
pub(crate) fn write_parquet(directory: &Path, name: &str, groups: &[&[i64]]) -> PathBuf {
    let groups: Vec<Vec<(&str, ArrayRef)>> =
        groups.iter().map(|values| vec![("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).collect();
    write_groups(&directory.join(name), &schema(vec![Field::new("a", DataType::Int64, true)]), &groups)
}

/// Writes one row group for each list of columns.
pub(super) fn write_groups(path: &Path, schema: &SchemaRef, groups: &[Vec<(&str, ArrayRef)>]) -> PathBuf {
    let batches: Vec<RecordBatch> = groups
        .iter()
        .map(|columns| {
            let columns = columns.iter().map(|(_, column)| column.clone()).collect();
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        })
        .collect();
    write_batches(path, schema, &batches, WriterProperties::builder().build())
}

pub(super) fn write_batches(
    path: &Path,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    properties: WriterProperties,
) -> PathBuf {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    path.to_path_buf()
}

/// A `filesystem` table; `options` besides connector and path.
pub(super) async fn table(
    path: &Path,
    columns: Option<SchemaRef>,
    options: &[(&str, &str)],
    rules: &AccessRules,
) -> Result<Arc<dyn TableSource>, Error> {
    let mut all = vec![("connector", "filesystem"), ("path", path.to_str().unwrap())];
    all.extend(options);
    create_table(&definition("t", columns, &all), rules).await
}

pub(super) const PARQUET: [(&str, &str); 1] = [("format", "parquet")];

async fn read(path: &Path, rules: &AccessRules) -> Result<String, Error> {
    let table = table(path, None, &PARQUET, rules).await?;
    Ok(read_text(&table, rules).await?.concat().replace("||", " ").replace('|', ""))
}

#[tokio::test]
async fn a_path_is_a_file_a_directory_or_a_pattern() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let rules = rules_for(root);
    for sub in ["d1", "d2", "d1/deeper"] {
        std::fs::create_dir(root.join(sub)).unwrap();
    }
    write_parquet(root, "d1/b.parquet", &[&[2]]);
    write_parquet(root, "d1/a.parquet", &[&[1]]);
    write_parquet(root, "d1/.hidden.parquet", &[&[77]]);
    write_parquet(root, "d1/_part.parquet", &[&[78]]);
    write_parquet(root, "d1/deeper/c.parquet", &[&[79]]);
    write_parquet(root, "d2/a.parquet", &[&[3]]);
    write_parquet(root, "d2/odd [1] name%20.parquet", &[&[4]]);
    for (path, expected) in [
        ("d1", "1 2"),
        ("d1/", "1 2"),
        ("d1/b.parquet", "2"),
        ("d1/_part.parquet", "78"),
        ("d2/odd [1] name%20.parquet", "4"),
        ("d1/*.parquet", "1 2"),
        ("d?/a*", "1 3"),
        ("d[1-2]/[!b].parquet", "1 3"),
        ("*/deeper/*", "79"),
        ("d1/../d2/a.parquet", "3"),
    ] {
        assert_eq!(read(&root.join(path), &rules).await.unwrap(), expected, "{path}");
    }
    let url = format!("file://{}/d1/a.parquet", root.display());
    assert_eq!(read(Path::new(&url), &rules).await.unwrap(), "1");
}

#[tokio::test]
async fn paths_outside_the_roots_are_refused_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let outside = dir.path().join("outside");
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&outside).unwrap();
    write_parquet(&outside, "secret.parquet", &[&[42]]);
    write_parquet(&root, "fine.parquet", &[&[1]]);
    let rules = rules_for(&root);
    std::os::unix::fs::symlink(&outside, root.join("dir-link")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret.parquet"), root.join("link.parquet")).unwrap();
    for path in [
        "dir-link",
        "link.parquet",
        "../outside",
        "../outside/*",
        "*.parquet",
        "dir-*/*",
        "../out*/secret.parquet",
        ".",
    ] {
        let error = read(&root.join(path), &rules).await.unwrap_err();
        let outside = matches!(&error, Error::Path { problem: PathProblem::OutsideRoots { .. }, .. });
        assert!(outside, "{path}: {error}");
        assert!(
            error
                .to_string()
                .contains(&format!("outside the allowed roots '{}'", root.canonicalize().unwrap().display()))
        );
        assert_eq!(error.fault(), Fault::User);
    }
    for path in ["*/../../outside/secret.parquet", "fine*/.."] {
        let error = read(&root.join(path), &rules).await.unwrap_err();
        assert!(error.to_string().contains("'..' may not follow a wildcard"), "{path}: {error}");
    }
    assert_eq!(read(&root.join("fine.parquet"), &rules).await.unwrap(), "1");

    // a split that was planned under other rules, or forged
    let table = table(&outside, None, &PARQUET, &rules_for(dir.path())).await.unwrap();
    let error = crate::test_util::read_table(&table, &crate::test_util::everything(&table.schema()), &rules).await;
    assert!(error.unwrap_err().to_string().contains("outside the allowed roots"));
}

#[tokio::test]
async fn a_link_put_in_after_planning_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let secret = write_parquet(dir.path(), "secret.parquet", &[&[42]]);
    let file = write_parquet(&root, "a.parquet", &[&[1]]);
    let rules = rules_for(&root);
    let table = table(&file, None, &PARQUET, &rules).await.unwrap();
    let split = table.plan_scan().await.unwrap().splits.remove(0);
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&secret, &file).unwrap();
    let request = crate::test_util::everything(&table.schema());
    let spec = table.scan_spec();
    for error in [
        crate::test_util::read_split(&spec, &split.payload, &request, &rules, 10).await.unwrap_err(),
        table.plan_scan().await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("outside the allowed roots"), "{error}");
    }
}

#[tokio::test]
async fn nothing_to_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    std::fs::create_dir_all(dir.path().join("empty/sub")).unwrap();
    std::fs::write(dir.path().join("empty/.hidden"), "").unwrap();
    for (path, expected) in [
        ("empty", "holds no file to read"),
        ("empty/*.parquet", "holds no file to read"),
        ("missing", "missing' does not exist"),
        ("missing/*.parquet", "missing' does not exist"),
        ("empty/[a", "'[' in '[a' is not closed"),
    ] {
        let error = read(&dir.path().join(path), &rules).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{path}: {error}");
    }
}

#[tokio::test]
async fn options_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    write_parquet(dir.path(), "a.parquet", &[&[1]]);
    for (options, expected) in [
        (vec![], "option 'format' is missing, expected parquet or csv"),
        (vec![("format", "orc")], "option 'format' has the value 'orc', allowed: parquet, csv"),
        (
            vec![("format", "parquet"), ("csv.header", "true")],
            "'csv.header' is unknown, known options: 'path', 'format'",
        ),
        (vec![("format", "csv"), ("csv.null-litteral", "")], "did you mean 'csv.null-literal'"),
        (vec![("format", "csv"), ("csv.field-delimiter", "||")], "allowed: one ASCII character"),
        (vec![("format", "csv"), ("csv.field-delimiter", "\"")], "allowed: another character than the quote"),
        (vec![("format", "csv"), ("csv.ignore-parse-errors", "yes")], "'yes', allowed: true, false"),
        (vec![("format", "csv")], "a CSV table needs declared columns"),
    ] {
        let error = table(dir.path(), None, &options, &rules).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{options:?}: {error}");
    }
    let def = definition("t", None, &[("connector", "filesystem"), ("format", "parquet")]);
    let error = create_table(&def, &rules).await.unwrap_err();
    assert!(error.to_string().contains("option 'path' is missing, expected a file, a directory or a pattern"));
}
