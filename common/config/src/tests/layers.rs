//! Order of the layers, notes, problems with their places, secrets, exposure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::load::load_layers;
use crate::{Origin, ProblemKind, Role, RuntimeMode, Scheduler, Secret};

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn token_of(loaded: &Loaded) -> Option<&str> {
    loaded.config.security.token.as_ref().map(Secret::expose)
}

#[test]
fn without_a_file_the_defaults_hold() {
    let loaded = load_layers(None, &[], None).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.notes, []);
    let config = loaded.config;
    assert_eq!((config.jobmanager.rpc_address.as_str(), config.jobmanager.rpc_port), ("localhost", 6123));
    assert_eq!(config.jobmanager.scheduler, Scheduler::AdaptiveBatch);
    assert_eq!(config.heartbeat.interval, Duration::from_secs(1));
    assert_eq!(config.heartbeat.timeout, Duration::from_secs(10));
    assert_eq!(config.slot_request_timeout, Duration::from_secs(300));
    assert_eq!(config.job_stall_timeout, Duration::from_secs(600));
    assert_eq!(config.client.result_ttl, Duration::from_secs(3600));
    assert_eq!(config.client.result_max_size, 1 << 30);
    assert_eq!(config.taskmanager.memory.network_min, 64 << 20);
    assert_eq!(config.execution.single_task_threshold, 16 << 20);
    assert_eq!((config.execution.auto_parallelism.min, config.execution.auto_parallelism.max), (1, 128));
    assert_eq!(config.table.local_time_zone, "UTC");
    assert_eq!(config.tmp_dirs, [std::env::temp_dir()]);
}

#[test]
fn later_layers_win() {
    let file = TestFile::new("rest.port: 1000\nheartbeat: {interval: 2 s}\nparallelism.default: 3");
    let loaded = file.load(&[("rest.port", "2000"), ("rest.port", "3000-3001")], None).unwrap();
    assert_eq!((loaded.config.rest.port.first, loaded.config.rest.port.last), (3000, 3001));
    assert_eq!(loaded.config.heartbeat.interval, Duration::from_secs(2));
    let session = loaded.config.with_session(&settings(&[("parallelism.default", "4")])).unwrap();
    assert_eq!(session.config.parallelism_default, Some(4));
    assert_eq!(loaded.config.parallelism_default, Some(3), "the cluster's own configuration stays");
}

#[test]
fn sessions_may_not_set_what_belongs_to_the_cluster() {
    let errors = Config::default()
        .with_session(&settings(&[
            ("rest.port", "1"),
            ("taskmanager.memory.flink.size", "1g"),
            ("execution.runtime-mode", "batch"),
        ]))
        .unwrap_err();
    let texts: Vec<_> = errors.problems.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("set it in the config file")), "{texts:?}");
    assert!(texts[0].starts_with("SET: rest.port: "), "{texts:?}");

    for key in crate::session_keys() {
        let example = crate::registry::lookup(key).unwrap().example();
        Config::default().with_session(&settings(&[(key, &example)])).unwrap_or_else(|errors| panic!("{errors}"));
    }
    let loaded = Config::default()
        .with_session(&settings(&[("execution.runtime-mode", "STREAMING"), ("table.exec.state.ttl", "1 h")]))
        .unwrap();
    assert_eq!(loaded.config.execution.runtime_mode, RuntimeMode::Streaming);
    assert_eq!(loaded.notes[0].to_string(), "SET: table.exec.state.ttl: not in effect yet");
}

#[test]
fn session_settings_are_checked_together() {
    let errors = Config::default()
        .with_session(&settings(&[("execution.batch.adaptive.auto-parallelism.min-parallelism", "200")]))
        .unwrap_err();
    assert!(
        errors.to_string().contains("min-parallelism (200) must not be greater than max-parallelism (128)"),
        "{errors}"
    );
}

#[test]
fn notes_say_why_a_key_does_nothing() {
    let text = "jobmanager.scheduler: adaptive\ntaskmanager.memory.jvm-overhead.max: 1g\nexecution:\n  checkpointing.interval: 3 min\nenv.java.opts.all: -Xmx1g\n";
    let loaded = load(text).unwrap();
    assert_eq!(loaded.config, Config::default());
    let notes: Vec<_> = loaded.notes.iter().map(|note| (note.key.as_str(), note.text.as_str())).collect();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes[0].0 == "jobmanager.scheduler" && notes[0].1.contains("AdaptiveBatch is used"));
    assert!(notes[1].1.contains("taskmanager.memory.process.size"));
    assert_eq!(notes[2], ("execution.checkpointing.interval", "not in effect yet"));
    assert!(matches!(loaded.notes[2].origin, Origin::File { line: Some(4), .. }));
}

#[test]
fn a_key_not_in_effect_is_checked_all_the_same() {
    let found = problems("execution.checkpointing.interval: often\n");
    assert!(found[0].starts_with("thalweg.yaml:1: execution.checkpointing.interval: bad value 'often'"), "{found:?}");
}

#[test]
fn all_problems_are_reported_together() {
    let text = "\
rest.prot: 8081
heartbeat:
  interval: 20 s
  timeout: 10 s
taskmanager: {numberOfTaskSlots: 0, memory: {process.size: lots}}
rest.port: 1
rest:
  port: 2
jobmanager: 5
parallelism.default: [1, 2]
zzzzzzzzzzzzzzzz: 1
";
    let found = problems(text);
    let expected = [
        "thalweg.yaml:1: rest.prot: unknown key; did you mean `rest.port`?",
        "thalweg.yaml:5: taskmanager.numberOfTaskSlots: bad value '0': a whole number from 1 to 1024 is expected, for example `1`",
        "thalweg.yaml:5: taskmanager.memory.process.size: bad value 'lots': a size of at least 1 mb is expected: a whole \
         number with a unit of b, kb, mb, gb or tb (none means bytes), for example `1 gb`",
        "thalweg.yaml:8: rest.port: set twice, first on line 6; remove one of the two",
        "thalweg.yaml:9: jobmanager: this is a section, it takes keys and no value of its own, for example `jobmanager.rpc.address`",
        "thalweg.yaml:10: parallelism.default: bad value '[1, 2]': a whole number from 1 to 32768 is expected, for example `1`",
        "thalweg.yaml:11: zzzzzzzzzzzzzzzz: unknown key",
        "thalweg.yaml:4: heartbeat.timeout: heartbeat.timeout (10 s) must be longer than heartbeat.interval (20 s); set a \
         timeout of several intervals",
    ];
    assert_eq!(found, expected);
    let all = load(text).unwrap_err().to_string();
    assert!(all.starts_with("8 problems in the configuration:\n  "), "{all}");
}

#[test]
fn contradictions_are_found() {
    for (text, wanted) in [
        ("heartbeat.interval: 10 s", "heartbeat.interval: heartbeat.timeout (10 s) must be longer"),
        ("heartbeat.timeout: 1 s", "heartbeat.timeout: heartbeat.timeout (1 s) must be longer"),
        (
            "execution.batch.adaptive.auto-parallelism.max-parallelism: 4\nexecution.batch.adaptive.auto-parallelism.min-parallelism: 5",
            "min-parallelism (5) must not be greater than max-parallelism (4)",
        ),
        ("taskmanager.memory.network.min: 2g", "network.min (2 gb) must not be greater than network.max (1 gb)"),
        ("taskmanager.memory.process.size: 100m", "set taskmanager.memory.process.size to at least 214 mb"),
        ("taskmanager.memory: {process.size: 1g, managed.fraction: 0.9}", "lower the fraction"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(wanted), "{text}: {found:?}");
    }
    // The value that is refused must not also be blamed for a contradiction with its default.
    assert_eq!(problems("heartbeat.interval: 20 s\nheartbeat.timeout: soon").len(), 1);
}

#[test]
fn a_bad_file_is_an_error() {
    let missing = load_layers(Some(std::path::Path::new("/nonexistent/thalweg.yaml")), &[], None).unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/thalweg.yaml: cannot read"), "{missing}");
    assert!(std::error::Error::source(&missing).is_some());
    assert!(problems("a: [")[0].contains("not valid YAML"));
    assert!(problems("a text")[0].contains("a configuration is a mapping"));
    let file = TestFile::new("");
    std::fs::write(file.path(), [b'a', b':', 0xff]).unwrap();
    assert!(matches!(file.load(&[], None).unwrap_err().problems[0].kind, ProblemKind::Read(_)));
    std::fs::write(file.path(), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(matches!(file.load(&[], None).unwrap_err().problems[0].kind, ProblemKind::FileTooLong { .. }));
}

#[test]
fn problems_are_bounded() {
    let text: String = (0..500).map(|i| format!("unknown{i}: 1\n")).collect();
    let found = problems(&text);
    assert_eq!(found.len(), 101);
    assert!(found[100].contains("more than 100 problems"), "{}", found[100]);
}

#[test]
fn older_names_are_the_same_option() {
    let found = problems("state.checkpoints.dir: /a\nexecution.checkpointing.dir: /b\n");
    assert_eq!(
        found,
        ["thalweg.yaml:2: execution.checkpointing.dir: set twice, first on line 1; remove one of the two"]
    );
    let found = problems("rest:\n  port: 1\nrest:\n  address: a\n");
    assert_eq!(found, ["thalweg.yaml:3: rest: set twice, first on line 1; remove one of the two"]);
}

#[test]
fn empty_keys_leave_the_default() {
    assert_eq!(config("rest:\nheartbeat.interval:\ntaskmanager: {}\njobmanager: ~\n"), Config::default());
    assert_eq!(problems("rest.prot:\n").len(), 1);
    assert_eq!(problems("io.tmp.dirs: []\n").len(), 1);
}

#[test]
fn the_last_layer_gives_the_token() {
    let file = TestFile::new("security.token: from-file");
    assert_eq!(token_of(&file.load(&[], None).unwrap()), Some("from-file"));
    assert_eq!(token_of(&file.load(&[], Some("")).unwrap()), Some("from-file"));
    let on_line = file.load(&[("security.token", "from-line")], None).unwrap();
    assert_eq!(token_of(&on_line), Some("from-line"));
    assert!(on_line.notes[0].text.contains("list of processes"));
    assert_eq!(token_of(&file.load(&[("security.token", "x")], Some("from-env")).unwrap()), Some("from-env"));

    let secret = file.folder.path().join("token");
    std::fs::write(&secret, "  in-a-file\n").unwrap();
    let secret = secret.display().to_string();
    let loaded = file.load(&[("security.token-file", &secret)], None).unwrap();
    assert_eq!(token_of(&loaded), Some("in-a-file"), "-D is later than the file");
    let by_file = TestFile::new(&format!("security.token-file: {secret}"));
    assert_eq!(token_of(&by_file.load(&[], None).unwrap()), Some("in-a-file"));
    assert_eq!(token_of(&by_file.load(&[("security.token", "from-line")], None).unwrap()), Some("from-line"));
    assert_eq!(token_of(&by_file.load(&[], Some("from-env")).unwrap()), Some("from-env"));

    let both = TestFile::new(&format!("security: {{token: a, token-file: {secret}}}")).load(&[], None).unwrap_err();
    assert!(both.to_string().contains("are both set"), "{both}");
    let gone = TestFile::new("security.token-file: /nonexistent/token").load(&[], None).unwrap_err();
    assert!(gone.to_string().contains("cannot read the token file /nonexistent/token"), "{gone}");
}

#[test]
fn secrets_are_never_shown() {
    let mut shown = Vec::new();
    for text in [
        "security.token: my secret",
        "security.tokn: hush-hush",
        "security.token: [hush-hush]",
        "security.token:\n  - hush-hush\n  - x: hush-hush\n",
    ] {
        shown.push(load(text).map_err(|errors| format!("{errors} {errors:?}")).unwrap_err());
    }
    let file = TestFile::new("");
    shown.push(format!("{:?}", file.load(&[], Some("my secret")).unwrap_err()));
    let loaded = file.load(&[], Some("hush-hush")).unwrap();
    assert_eq!(loaded.config.get("security.token").as_deref(), Some("******"));
    shown.push(format!("{loaded:?} {}", loaded.config.security.token.as_ref().unwrap()));
    let secret = file.folder.path().join("token");
    std::fs::write(&secret, "my secret").unwrap();
    shown.push(file.load(&[("security.token-file", &secret.display().to_string())], None).unwrap_err().to_string());
    for text in shown {
        assert!(!text.contains("hush") && !text.contains("my secret"), "{text}");
    }
}

#[test]
fn only_loopback_is_bound_without_a_token() {
    let check = |text: &str, role| config(text).check_exposure(role).map_err(|errors| errors.to_string());
    for host in ["127.0.0.1", "127.8.9.1", "localhost", "LocalHost", "'::1'", "'[::1]'", "'::ffff:127.0.0.1'"] {
        assert_eq!(check(&format!("jobmanager.bind-host: {host}"), Role::JobManager), Ok(()), "{host}");
    }
    for host in ["0.0.0.0", "'::'", "10.0.0.1", "127.evil.com", "localhost.evil.com", "myhost"] {
        let error = check(&format!("jobmanager.bind-host: {host}"), Role::JobManager).unwrap_err();
        assert!(
            error.starts_with("jobmanager.bind-host: binding '") && error.contains("security.insecure: true"),
            "{error}"
        );
    }
    let open = "jobmanager.bind-host: 0.0.0.0\ntaskmanager.bind-host: 0.0.0.0\nrest.bind-address: 0.0.0.0\n";
    let count = |role| config(open).check_exposure(role).unwrap_err().problems.len();
    assert_eq!((count(Role::JobManager), count(Role::TaskManager), count(Role::Local)), (2, 1, 3));
    for allowed in ["security.token: abc", "security.insecure: true"] {
        assert_eq!(check(&format!("{open}{allowed}"), Role::Local), Ok(()));
    }
    assert!(check(&format!("{open}security.insecure: false"), Role::Local).is_err());
}
