//! What needs no cluster.

use crate::{code, stderr, stdout, thalweg};

#[test]
fn help_is_no_error_and_a_wrong_command_line_is() {
    let help = thalweg(&["--help"]).output().unwrap();
    assert_eq!(code(&help), 0);
    for command in ["sql", "jobs", "cluster", "config"] {
        assert!(stdout(&help).contains(command), "{}", stdout(&help));
    }
    let wrong: [&[&str]; 5] =
        [&[], &["fly"], &["sql", "-e", "a", "-f", "b"], &["jobs", "show", "17"], &["sql", "-D", "novalue", "-e", "x"]];
    for args in wrong {
        let output = thalweg(args).output().unwrap();
        assert_eq!(code(&output), 2, "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn nobody_at_the_address_is_exit_code_3() {
    let calls: [&[&str]; 3] = [&["sql", "-e", "SELECT 1"], &["jobs", "list"], &["cluster", "--json"]];
    for args in calls {
        let output = thalweg(&[args, &["--jobmanager", "127.0.0.1:1"]].concat()).output().unwrap();
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        assert!(stderr(&output).contains("127.0.0.1:1"), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    let output = thalweg(&["cluster"]).env("THALWEG_JOBMANAGER", "127.0.0.1:2").output().unwrap();
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("127.0.0.1:2"), "{}", stderr(&output));
}

#[test]
fn an_address_that_is_none_and_a_missing_file_are_exit_code_2() {
    let output = thalweg(&["cluster", "--jobmanager", "nowhere"]).output().unwrap();
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let output = thalweg(&["cluster", "--token-file", "/does/not/exist"]).output().unwrap();
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("/does/not/exist"), "{}", stderr(&output));
}

#[test]
fn a_configuration_is_checked_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("thalweg.yaml");
    let check = |yaml: &str| {
        std::fs::write(&file, yaml).unwrap();
        thalweg(&["config", "check"]).arg(&file).output().unwrap()
    };
    let good = check("rest:\n  port: 8081\n");
    assert_eq!(code(&good), 0, "{}", stderr(&good));
    assert!(stdout(&good).ends_with(": ok\n"), "{}", stdout(&good));
    let bad = check("rest:\n  prot: 8081\n");
    assert_eq!((code(&bad), stdout(&bad)), (2, ""));
    assert!(stderr(&bad).contains("rest.prot"), "{}", stderr(&bad));
    let reference = thalweg(&["config", "reference"]).output().unwrap();
    assert_eq!(code(&reference), 0);
    assert!(stdout(&reference).contains("security.token"));
}
