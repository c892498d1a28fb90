//! Packages of others that tests start, at the versions that this checkout pins.
//!
//! Owns `target/e2e/`: a folder for each set of pins, made once and used by every later run.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binary;

/// Advice for when a program is missing.
pub(crate) const PROGRAMS: &str =
    "install what tests use: `.ci/install` on Debian, or by other means what .ci/packages lists";

/// Toolchain that is fetched where the Go that is here fetches none.
const GO: &str = "go1.25.4";

/// A folder with the npm packages and the scripts of `tests/e2e/js`.
pub(crate) fn javascript() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let from = binary::root().join("tests/e2e/js");
        let pins = ["package.json", "package-lock.json"];
        let install = |folder: &Path| {
            for pin in pins {
                fs::copy(from.join(pin), folder.join(pin)).expect("a copy below target");
            }
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
            run(npm.current_dir(folder));
        };
        let folder = once("js", &from, &pins, install);
        // Node looks for packages beside the script.
        for script in fs::read_dir(&from).expect("tests/e2e/js").flatten() {
            if script.path().extension().is_some_and(|kind| kind == "mjs") {
                refresh(&script.path(), &folder.join(script.file_name()));
            }
        }
        folder
    })
}

/// The classpath of the programs `Sdk`, `Backend` and `Http2` with the Maven packages of
/// `tests/e2e/java`.
pub(crate) fn java() -> &'static str {
    static CLASSPATH: OnceLock<String> = OnceLock::new();
    CLASSPATH.get_or_init(|| {
        java_of(
            "java",
            "tests/e2e/java",
            &["Sdk.java", "Backend.java", "Http2.java"],
        )
    })
}

/// A folder with the programs `backend` and `http2` of `tests/e2e/go`, built with the modules that
/// it pins.
pub(crate) fn go_programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let from = binary::root().join("tests/e2e/go");
        let pins = ["go.mod", "go.sum", "backend.go", "http2/main.go"];
        once("go", &from, &pins, |folder| {
            for (program, package) in [("backend", "."), ("http2", "./http2")] {
                let mut build = Command::new("go");
                build.args(["build", "-o"]).arg(folder.join(program));
                run(build.arg(package).current_dir(&from));
            }
        })
    })
}

/// The classpath of Kafka and of the program `Kafka`, with the Maven packages of
/// `tests/feeds/java`.
pub(crate) fn kafka() -> &'static str {
    static CLASSPATH: OnceLock<String> = OnceLock::new();
    CLASSPATH.get_or_init(|| java_of("kafka", "tests/feeds/java", &["Kafka.java"]))
}

/// Maven packages in `lib`, which Maven keeps beside the checkout, and programs in `classes`.
fn java_of(name: &str, folder: &str, programs: &[&str]) -> String {
    let from = binary::root().join(folder);
    let pins = [&["pom.xml"], programs].concat();
    let folder = once(name, &from, &pins, |folder| {
        let lib = folder.join("lib");
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies"]);
        maven.args(["-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", lib.display()));
        run(maven.arg("--file").arg(from.join("pom.xml")));
        let mut javac = Command::new("javac");
        javac.arg("-d").arg(folder.join("classes"));
        javac.arg("-cp").arg(lib.join("*"));
        run(javac.args(programs.iter().map(|program| from.join(program))));
    });
    format!("{0}/classes:{0}/lib/*", folder.display())
}

/// The interpreter of an environment with the Python packages of `tests/e2e/python`.
pub(crate) fn python() -> &'static Path {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    INTERPRETER.get_or_init(|| python_of("python", "tests/e2e/python"))
}

/// The interpreter of an environment with the Python packages that the file `requirements.txt`
/// of a folder pins. `name` tells environments apart below `target/`.
pub fn python_of(name: &str, folder: &str) -> PathBuf {
    let from = binary::root().join(folder);
    let pins = ["requirements.txt"];
    let install = |folder: &Path| {
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(folder));
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ]);
        run(pip.arg(from.join(pins[0])));
    };
    once(name, &from, &pins, install).join("bin/python")
}

/// A folder with the npm packages that another one pins.
pub fn javascript_of(name: &str, folder: &str) -> PathBuf {
    let from = binary::root().join(folder);
    let pins = ["package.json", "package-lock.json"];
    once(name, &from, &pins, |folder| {
        for pin in pins {
            fs::copy(from.join(pin), folder.join(pin)).expect("a copy below target");
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run(npm.current_dir(folder));
    })
}

/// The program `nats-server` of a version that Debian does not have.
pub(crate) fn nats_server(version: &str) -> PathBuf {
    go_module("nats-server", "github.com/nats-io/nats-server/v2", version)
}

/// Go's client of gRPC for the command line.
pub(crate) fn grpcurl() -> PathBuf {
    go_module(
        "grpcurl",
        "github.com/fullstorydev/grpcurl/cmd/grpcurl",
        "1.9.3",
    )
}

/// A program, built from the Go module proxy.
fn go_module(program: &str, package: &str, version: &str) -> PathBuf {
    let install = |folder: &Path| {
        let mut go = Command::new(go());
        go.args(["install", "-trimpath"]);
        go.arg(format!("{package}@v{version}"));
        // A module may ask for a newer Go than the one that is here, which fetches it.
        go.env("GOBIN", folder).env("GOTOOLCHAIN", "auto");
        go.env_remove("GOROOT");
        run(&mut go);
    };
    let name = format!("{program}-{version}");
    once(&name, Path::new(""), &[], install).join(program)
}

/// A Go that fetches newer ones by itself: the one that is here, or one that it gets from the
/// module proxy, where Go keeps its own toolchains.
fn go() -> PathBuf {
    let here = PathBuf::from("go");
    let told = Command::new(&here).arg("version").output();
    let told = told.unwrap_or_else(|error| panic!("cannot start go: {error}; {PROGRAMS}"));
    if is_go_new_enough(&String::from_utf8_lossy(&told.stdout)) {
        return here;
    }
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let module = format!("golang.org/toolchain@v0.0.1-{GO}.linux-{arch}");
    let folder = once(GO, Path::new(""), &[], |folder| {
        let mut fetch = Command::new(&here);
        fetch
            .args(["mod", "download", &module])
            .env("GOMODCACHE", folder);
        run(fetch.env("GOFLAGS", "-modcacherw"));
        // What a module cannot have: programs, and modules within it.
        let root = folder.join(&module);
        let tool = root.join(format!("pkg/tool/linux_{arch}"));
        for programs in [root.join("bin"), tool] {
            for program in fs::read_dir(programs).expect("programs of Go").flatten() {
                let runs = fs::Permissions::from_mode(0o755);
                fs::set_permissions(program.path(), runs).expect("a program that runs");
            }
        }
        for within in ["src", "src/cmd"] {
            let within = root.join(within);
            fs::copy(within.join("_go.mod"), within.join("go.mod")).expect("a module of Go");
        }
    });
    folder.join(module).join("bin/go")
}

/// Whether the version in the output of `go version` fetches newer toolchains by itself.
fn is_go_new_enough(told: &str) -> bool {
    let version = told
        .split_whitespace()
        .find_map(|it| it.strip_prefix("go1."));
    let minor = version.and_then(|it| it.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    minor.is_some_and(|minor: u32| minor >= 21)
}

/// The folder for these pins, filled by the first process that needs it.
fn once(name: &str, from: &Path, pins: &[&str], fill: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    for pin in pins {
        let pin = from.join(pin);
        fs::read(&pin)
            .unwrap_or_else(|error| panic!("{}: {error}", pin.display()))
            .hash(&mut hasher);
    }
    let all = binary::target().join("e2e");
    let folder = all.join(format!("{name}-{:016x}", hasher.finish()));
    fs::create_dir_all(&folder).expect("a folder below target");
    // Other test binaries may want it at the same time.
    let lock = File::create(all.join(format!("{name}.lock"))).expect("a file below target");
    lock.lock().expect("a lock on it");
    let complete = folder.join("complete");
    if !complete.exists() {
        fill(&folder);
        fs::write(complete, "").expect("a file below target");
    }
    folder
}

/// Copies a script unless it is there already, never leaving half of it to be read.
fn refresh(from: &Path, to: &Path) {
    let text = fs::read(from).expect("a script of this checkout");
    if fs::read(to).is_ok_and(|known| known == text) {
        return;
    }
    let draft = to.with_extension(format!("{}.draft", std::process::id()));
    fs::write(&draft, text).expect("a file below target");
    fs::rename(draft, to).expect("a file below target");
}

fn run(command: &mut Command) {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .unwrap_or_else(|error| panic!("cannot start {name}: {error}; {PROGRAMS}"));
    assert!(
        done.status.success(),
        "{command:?} failed; it needs its package registry, and {PROGRAMS}\n{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[cfg(test)]
mod tests {
    use super::is_go_new_enough;

    #[test]
    fn an_old_go_is_known_by_what_it_says() {
        for (told, expected) in [
            ("go version go1.19.8 linux/amd64\n", false),
            ("go version go1.21rc2 linux/amd64", true),
            ("go version go1.26.8 linux/arm64", true),
            ("", false),
        ] {
            assert_eq!(is_go_new_enough(told), expected, "{told}");
        }
    }
}
