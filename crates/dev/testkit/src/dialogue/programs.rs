//! Steps of dialogues that concern programs, their files, and browsers.

use std::fs;

use throng_dialogue::{Outcome, arrow, word};

use super::output::{command, finished};
use super::values::parse;
use super::{Story, Thing};
use crate::{
    Authority, Browser, Issued, Issuer, Process, Signal, TlsFiles, TokenKey, binary, free_port,
    throng,
};

/// Checks a text: each part must be in it, or with `!` before must not.
fn has(text: &str, parts: &[&str]) -> Outcome {
    for part in parts {
        let holds = match part.strip_prefix('!') {
            Some(part) => !text.contains(part),
            None => text.contains(part),
        };
        if !holds {
            return Err(format!("not {part}: {text}"));
        }
    }
    Ok(())
}

impl Story {
    /// A step about programs and files; none if the verb is no such.
    pub(super) fn program_step(&mut self, verb: &str, rest: &str, block: &str) -> Option<Outcome> {
        match verb {
            "run" => return Some(self.run_program(rest, block)),
            "process" => {
                let (name, line) = word(rest);
                let process = Process::start(&mut command(line), "see .ci/packages");
                self.things.insert(name.to_owned(), Thing::Process(process));
            }
            "tls" => {
                let tls = TlsFiles::default();
                self.set("TLS", tls.config("").trim_end().to_owned());
                self.set("TRUSTED", tls.trusted.clone());
                self.set("FOLDER", tls.files.folder().display().to_string());
                self.tls = Some(tls);
            }
            // An issuer that publishes these keys; again, where one was before.
            "issuer" | "issuer-again" => {
                let (name, keys) = word(rest);
                let keys = self.keys(keys);
                let keys: Vec<&TokenKey> = keys.iter().map(|key| &self.keys[key]).collect();
                let issuer = match self.variables.get(name).filter(|_| verb != "issuer") {
                    Some(url) => {
                        let url = url.strip_prefix("http://").expect("its own");
                        Issuer::at(url.strip_suffix("/keys").expect("its own"), &keys)
                    }
                    None => Issuer::at(&format!("127.0.0.1:{}", free_port()), &keys),
                };
                self.set(name, issuer.url());
                self.things.insert(name.to_owned(), Thing::Issuer(issuer));
            }
            "folder" => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                self.set(rest, folder.path().display().to_string());
                self.folders.push(folder);
            }
            "file-has" => {
                let (folder, part) = word(rest);
                let files = fs::read_dir(folder).into_iter().flatten().flatten();
                let mut texts = files.filter_map(|file| fs::read(file.path()).ok());
                let has = |text: Vec<u8>| String::from_utf8_lossy(&text).contains(part);
                if !texts.any(has) {
                    return Some(Err(format!("no file has {part}")));
                }
            }
            // What the next upgrade starts: a script of the shell, or this checkout's program.
            "install" => {
                let installed = self.installed.as_ref().expect("a server that upgrades");
                match rest {
                    "" => installed.install(throng()),
                    script => installed.install_script(script),
                }
            }
            "uninstall" => {
                let installed = self.installed.as_ref().expect("a server that upgrades");
                fs::remove_file(installed.path()).expect("a link");
            }
            "authority" => {
                let authority = Authority::new(rest);
                self.files()
                    .files
                    .write(&format!("{rest}.pem"), authority.pem());
                self.authorities.insert(rest.to_owned(), authority);
            }
            "certificate" => self.issue(rest),
            "write" => _ = self.files().files.write(rest, block),
            "join" => {
                let (name, parts) = word(rest);
                let files = &self.files().files;
                let parts = parts.split_whitespace().map(|part| files.path(part));
                let texts = parts.map(|path| fs::read_to_string(path).expect("a file"));
                files.write(name, &texts.collect::<String>());
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    fn files(&self) -> &TlsFiles {
        self.tls.as_ref().expect("a step `tls`")
    }

    /// Certificate of the story's servers.
    pub(super) fn issued(&self) -> Issued {
        let [certificate, key] = ["server.pem", "server.key"]
            .map(|name| fs::read_to_string(self.files().files.path(name)).expect("a file"));
        Issued { certificate, key }
    }

    /// `NAME a,b [year=2100] [by=AUTHORITY]`: `NAME.pem` and `NAME.key` for these names.
    fn issue(&self, rest: &str) {
        let mut words = rest.split(' ');
        let (name, names) = (words.next().expect("a name"), words.next().expect("names"));
        let (mut authority, mut year) = (&self.files().authority, 2100);
        for option in words {
            match option.split_once('=') {
                Some(("year", number)) => year = number.parse().expect("a year"),
                Some(("by", name)) => authority = &self.authorities[name],
                _ => panic!("no option of a certificate: {option}"),
            }
        }
        let names: Vec<&str> = names.split(',').collect();
        let issued = authority.issue_until(&names, year);
        self.files().files.write_issued(name, &issued);
    }

    /// A key by its name, which is made if it is new.
    pub(super) fn key(&mut self, name: &str) -> &TokenKey {
        let key = self.keys.entry(name.to_owned());
        key.or_insert_with(|| TokenKey::new(name))
    }

    /// Names of keys, which all are there.
    fn keys(&mut self, names: &str) -> Vec<String> {
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        for name in &names {
            self.key(name);
        }
        names
    }

    pub(super) fn issuer_step(&mut self, issuer: &Issuer, verb: &str, rest: &str) -> Outcome {
        match verb {
            "publishes" => {
                let keys = self.keys(rest);
                let keys: Vec<&TokenKey> = keys.iter().map(|key| &self.keys[key]).collect();
                issuer.publish(&keys);
            }
            "says" => {
                let (status, body) = word(rest);
                issuer.say(status.parse().expect("a status"), body.as_bytes());
            }
            "holds" => issuer.hold(),
            // Signs everybody in: `ID:SECRET`, where browsers go back to, and who they are.
            "opens" => {
                let (client, rest) = word(rest);
                let (back_to, claims) = word(rest);
                issuer.open(client, back_to, parse(claims));
            }
            "asked" => {
                let asked = issuer.asked().to_string();
                return match asked == rest {
                    true => Ok(()),
                    false => Err(format!("it was asked {asked} times")),
                };
            }
            other => panic!("no step of an issuer: {other}"),
        }
        Ok(())
    }

    pub(super) fn process_step(
        &mut self,
        process: &mut Process,
        verb: &str,
        rest: &str,
    ) -> Outcome {
        match verb {
            "prints" => _ = process.prints(rest),
            // What there is by now.
            "has-printed" => {
                let lines = process.out("its lines", |lines| Some(lines.join("\n")));
                return has(&lines, &[rest]);
            }
            "err" => process.err(rest, |lines| lines.iter().any(|line| line.contains(rest))),
            // So many lines with the text.
            "prints-all" | "err-all" => {
                let (count, part) = word(rest);
                let count: usize = count.parse().expect("a count");
                let has = |lines: &[String]| {
                    lines.iter().filter(|line| line.contains(part)).count() == count
                };
                match verb {
                    "err-all" => process.err(rest, has),
                    _ => process.out(rest, has),
                }
            }
            // Lines one behind the other, from the first that has the first part on.
            "prints-lines" => {
                let parts: Vec<&str> = rest.split(" | ").collect();
                let fit = process.out(rest, |lines| {
                    let first = lines.iter().position(|line| line.contains(parts[0]))?;
                    let found = lines.get(first..first + parts.len())?;
                    Some({ found.iter().zip(&parts) }.all(|(line, part)| line.contains(part)))
                });
                return match fit {
                    true => Ok(()),
                    false => Err("other lines".to_owned()),
                };
            }
            "prints-line-of" => {
                let least: usize = rest.parse().expect("a length");
                process.out(rest, |lines| lines.iter().any(|line| line.len() >= least));
            }
            // The last word of a line becomes a variable.
            "gives" | "err-gives" => {
                let (name, part) = word(rest);
                let last = |lines: &[String]| {
                    let line = lines.iter().find(|line| line.contains(part))?;
                    Some(line.rsplit_once(' ')?.1.to_owned())
                };
                let value = match verb {
                    "gives" => process.out(part, last),
                    _ => process.err(part, last),
                };
                self.set(name, value);
            }
            "say" => process.say(rest),
            "interrupt" => process.signal(Signal::INT),
            "ends" => {
                let ended = process.wait();
                return match rest.is_empty() || ended.success() {
                    true => Ok(()),
                    false => Err(format!("it ended with {ended}")),
                };
            }
            other => panic!("no step of a process: {other}"),
        }
        Ok(())
    }

    pub(super) fn browser_step(
        &mut self,
        browser: &Browser,
        verb: &str,
        rest: &str,
        block: &str,
    ) -> Outcome {
        let script = if block.is_empty() { rest } else { block };
        match verb {
            "open" => browser.open(rest),
            "run" => _ = browser.run(script),
            "until" => _ = browser.until(rest, script),
            "gives" => {
                let found = browser.run(block);
                self.fit(&found, &parse(rest))?;
            }
            // None, but for those that contain the text.
            "errors" => {
                let errors = browser.console_errors();
                let is_known = |it: &String| !rest.is_empty() && it.contains(rest);
                if !errors.iter().all(is_known) {
                    return Err(format!("{errors:?}"));
                }
            }
            "show" => {
                let (width, look) = word(rest);
                browser.show_as(width.parse().expect("a width"), look == "dark");
            }
            // A picture for people.
            "keep" => {
                let path = binary::target().join("tmp").join(rest);
                fs::write(path, browser.screenshot()).expect("a place for it");
            }
            other => panic!("no step of a browser: {other}"),
        }
        Ok(())
    }

    /// Runs a program with the lines below as its input: `PROGRAM ARGUMENTS => CODE && parts` of
    /// what it prints; the code `*` is any, `!0` any other. A part `json {}` is a pattern of its
    /// standard output.
    fn run_program(&mut self, rest: &str, input: &str) -> Outcome {
        let (line, wanted) = arrow(rest);
        let (code, parts) = wanted.split_once(" && ").unwrap_or((wanted, ""));
        let (ended, done) = finished(command(line), input.as_bytes())?;
        let told = format!("{}{}", done.out, done.err);
        let is_wanted = match code.strip_prefix('!') {
            Some(other) => ended.as_deref() != Some(other),
            None => code == "*" || ended.as_deref() == Some(code),
        };
        if !is_wanted {
            return Err(format!("it ended with {ended:?} and said {told}"));
        }
        let (json_parts, parts): (Vec<&str>, Vec<&str>) =
            { parts.split(" && ") }.partition(|part| part.starts_with("json "));
        for part in json_parts {
            let found = serde_json::from_str(&done.out).unwrap_or_default();
            self.fit(&found, &parse(&part["json ".len()..]))?;
        }
        has(&told, &parts)
    }
}
