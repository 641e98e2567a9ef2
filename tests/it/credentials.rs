//! Whose credentials are used, and what happens when those who give them out have a bad moment.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use crate::s3::{at, upload};
use crate::servers::{Http, header};
use crate::support::{Dataset, run};
use shardpack_fixtures::s3_server::{ACCESS_KEY, Fault, Kind, SECRET_KEY, Server};

/// A bucket with images, and configuration files that a run is pointed at.
struct World {
    server: Server,
    data: Dataset,
}

impl World {
    fn new() -> Self {
        let data = Dataset::new().class("cat", 30).class("dog", 30);
        let server = Server::start();
        upload(&server, &data.source(), "images");
        Self { server, data }
    }

    /// A conversion to a new directory, with keys in the environment.
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = at(&self.server, &["convert", "s3://bucket/images"]);
        command.arg(self.data.fresh()).args(flags);
        command.env("AWS_CONFIG_FILE", self.data.place("config"));
        command.env("AWS_SHARED_CREDENTIALS_FILE", self.data.place("keys"));
        command
    }

    /// The same without keys.
    fn keyless(&self, flags: &[&str]) -> Command {
        let mut command = self.command(flags);
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY");
        command
    }

    fn config(&self, text: &str) {
        std::fs::write(self.data.place("config"), text).unwrap();
    }

    /// A program for `credential_process` that fails at these calls of it, counted from 0, and gives out what lasts so long.
    fn program(&self, fails_at: &str, seconds: u32) {
        let (program, calls) = (self.data.place("program"), self.data.place("calls"));
        let text = format!(
            "#!/bin/sh\nn=$(cat '{calls}' 2>/dev/null | wc -c)\nprintf x >> '{calls}'\n\
             case $n in {fails_at}) echo boom >&2; exit 1;; esac\n\
             end=$(date -u -d '+{seconds} seconds' +%Y-%m-%dT%H:%M:%SZ)\n\
             echo '{{\"Version\":1,\"AccessKeyId\":\"{ACCESS_KEY}\",\"SecretAccessKey\":\"{SECRET_KEY}\",\"SessionToken\":\"t\",\"Expiration\":\"'$end'\"}}'\n",
            calls = calls.display(),
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        self.config(&format!(
            "[default]\ncredential_process = {}\n",
            program.display()
        ));
    }

    /// How often it was called.
    fn calls(&self) -> usize {
        std::fs::read(self.data.place("calls")).map_or(0, |calls| calls.len())
    }
}

/// What metadata services answer.
fn json(code: &str) -> String {
    format!(
        "{{\"Code\":\"{code}\",\"AccessKeyId\":\"{ACCESS_KEY}\",\"SecretAccessKey\":\"{SECRET_KEY}\",\"Token\":\"t\",\
         \"Expiration\":\"2099-01-01T00:00:00Z\"}}"
    )
}

#[test]
fn a_profile_that_was_asked_for_wins_over_keys_in_the_environment() {
    let world = World::new();
    world.config(&format!(
        "[profile good]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n\
         [profile other]\naws_access_key_id = OTHERKEY\naws_secret_access_key = othersecret\n"
    ));
    // The test server's word for a key that it does not know.
    let unknown_key = "NotSignedUp";
    run(&mut world.command(&["--profile", "other"]))
        .exits(1)
        .says(&[unknown_key]);
    run(world.command(&[]).env("SHARDPACK_PROFILE", "other"))
        .exits(1)
        .says(&[unknown_key]);
    let wrong = |flags| {
        let mut command = world.command(flags);
        command.env("AWS_ACCESS_KEY_ID", "WRONGKEY");
        command
    };
    run(&mut wrong(&["--profile", "good"])).exits(0);
    run(wrong(&[]).env("SHARDPACK_PROFILE", "good")).exits(0);
    run(wrong(&["--profile", "good"]).env("AWS_PROFILE", "other")).exits(0);
    // As every program of AWS: what the environment names comes after the keys that it holds.
    run(wrong(&[]).env("AWS_PROFILE", "good"))
        .exits(1)
        .says(&[unknown_key]);
    run(world.command(&[]).env("AWS_PROFILE", "other")).exits(0);
    run(world.keyless(&[]).env("AWS_PROFILE", "good")).exits(0);
}

#[test]
fn an_unknown_profile_is_a_usage_error_that_names_those_there_are() {
    let world = World::new();
    let secret = "othersecretcanary";
    world.config(&format!(
        "[profile other]\naws_access_key_id = OTHERKEY\naws_secret_access_key = {secret}\n"
    ));
    std::fs::write(
        world.data.place("keys"),
        format!("[third]\naws_access_key_id = K\naws_secret_access_key = {secret}\n"),
    )
    .unwrap();
    let config = world.data.place("config");
    let named_by = |variable: &str| {
        let mut command = world.command(&[]);
        command.env(variable, "nope");
        command
    };
    let commands = [
        world.command(&["--profile", "nope"]),
        world.command(&["--profile", "nope", "--no-sign-request"]),
        world.command(&["--profile", "default"]),
        world.keyless(&["--profile", "nope"]),
        named_by("SHARDPACK_PROFILE"),
        named_by("AWS_PROFILE"),
    ];
    for mut command in commands {
        let run = run(&mut command);
        run.exits(2).says(&[
            "there is no such profile",
            config.to_str().unwrap(),
            "`other`, `third`",
        ]);
        assert!(!run.err.contains(secret) && !run.err.contains("OTHERKEY"));
    }
    assert_eq!(world.server.requests().len(), 0, "nobody was asked");
    // What holds where nothing is said need not be written down.
    run(world.command(&[]).env("AWS_PROFILE", "default")).exits(0);
    run(world.command(&[]).env("AWS_PROFILE", "")).exits(0);
}

#[test]
fn a_profile_without_credentials_borrows_none() {
    let world = World::new();
    world.config("[profile bare]\nregion = us-east-1\n[profile half]\naws_access_key_id = K\n");
    let machine = Http::start(|_, _| (200, json("Success")));
    for (profile, words) in [
        ("bare", "profile `bare` has none"),
        ("half", "no usable credentials"),
    ] {
        let mut command = world.command(&["--profile", profile]);
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url());
        run(&mut command)
            .exits(1)
            .says(&["no usable credentials", words]);
    }
    assert_eq!(machine.requests().len(), 0);
    assert_eq!(world.server.requests().len(), 0);
    // Its other settings are of use without credentials.
    let open = shardpack_fixtures::s3_server::Options {
        anonymous: true,
        ..Default::default()
    };
    let open = Server::with(open);
    upload(&open, &world.data.source(), "images");
    let mut command = world.command(&["--profile", "bare", "--no-sign-request"]);
    run(command.env("AWS_ENDPOINT_URL_S3", open.endpoint())).exits(0);
    assert!(open.requests().iter().all(|request| !request.signed));
}

#[test]
fn a_flag_wins_over_environment_and_profile_for_server_and_region() {
    let world = World::new();
    let denied = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    let servers: Vec<_> = (0..4)
        .map(|_| Http::start(|_, _| (403, denied.to_owned())))
        .collect();
    let [flag, special, general, file] = &servers[..] else {
        unreachable!("there are four");
    };
    world.config(&format!(
        "[profile p]\nendpoint_url = {}\nregion = ap-south-1\naws_access_key_id = K\naws_secret_access_key = S\n",
        file.url()
    ));
    let mut command = world.command(&["--profile", "p"]);
    command
        .env_remove("AWS_ENDPOINT_URL_S3")
        .env_remove("AWS_REGION");
    let assert_asked = |command: &mut Command, server: &Http, region: &str| {
        run(command).exits(1);
        let requests = server.requests();
        let signed = header(&requests[0], "authorization").unwrap();
        let scope = format!("/{region}/s3/aws4_request");
        assert!(
            signed.contains(&scope) && signed.contains("Credential=K/"),
            "{signed}"
        );
    };
    // Each comes before all that were named until then.
    assert_asked(&mut command, file, "ap-south-1");
    command
        .env("AWS_ENDPOINT_URL", general.url())
        .env("AWS_REGION", "eu-west-2");
    assert_asked(&mut command, general, "eu-west-2");
    command.env("AWS_ENDPOINT_URL_S3", special.url());
    assert_asked(&mut command, special, "eu-west-2");
    command.args(["--endpoint-url", &flag.url(), "--region", "eu-west-3"]);
    assert_asked(&mut command, flag, "eu-west-3");
}

#[test]
fn a_program_that_gives_credentials_out_may_fail_for_a_moment() {
    let world = World::new();
    // At the start, when nothing else is known, and when the first credentials end in the middle of a run.
    for (fails_at, latency, asked) in [("0|1", 0, 3), ("1|2", 300, 4)] {
        world.program(fails_at, 3);
        world.server.set_latency(Duration::from_millis(latency));
        let _ = std::fs::remove_file(world.data.place("calls"));
        run(&mut world.keyless(&["--reads", "4"])).exits(0);
        assert!(world.calls() >= asked, "{} calls", world.calls());
    }
}

#[test]
fn credentials_that_end_and_do_not_come_back_end_a_run_with_75() {
    let world = World::new();
    world.program("[1-9]*", 3);
    world.server.set_latency(Duration::from_millis(300));
    run(&mut world.keyless(&["--reads", "2", "--retry-for", "3"]))
        .exits(75)
        .says(&[
            "credentials cannot be fetched at the moment",
            "boom",
            "run again",
        ]);
    // Hundreds of requests that wait for credentials ask once a second at most, not once each.
    assert!(world.calls() < 20, "{} calls", world.calls());
}

#[test]
fn a_service_that_gives_credentials_out_may_push_back_or_break() {
    let world = World::new();
    std::thread::scope(|scope| {
        // The client library itself asks again after some of these, at once and a few times.
        for (status, bad) in [(429, 3), (500, 6), (503, 6)] {
            let mut container = world.keyless(&[]);
            let mut machine = world.keyless(&[]);
            let mut token = web_identity(&world);
            scope.spawn(move || {
                let server = Http::start(move |_, before| match before {
                    n if n < bad => (status, String::new()),
                    _ => (200, json("Success")),
                });
                container.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url());
                run(&mut container).exits(0);
                assert!(server.requests().len() > bad, "{status}");
            });
            scope.spawn(move || {
                let server = Http::start(move |line, before| match before {
                    n if n < bad => (status, String::new()),
                    _ if line.contains("/latest/api/token") => (200, "token".to_owned()),
                    _ if line.contains("/security-credentials/role") => (200, json("Success")),
                    _ => (200, "role".to_owned()),
                });
                machine
                    .env_remove("AWS_EC2_METADATA_DISABLED")
                    .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
                run(&mut machine).exits(0);
                assert!(server.requests().len() > bad, "{status}");
            });
            scope.spawn(move || {
                let server = Http::start(move |_, before| match before {
                    n if n < bad => (status, refusal("Throttling")),
                    _ => (200, assumed()),
                });
                run(token.env("AWS_ENDPOINT_URL_STS", server.url())).exits(0);
                assert!(server.requests().len() > bad, "{status}");
            });
        }
    });
}

/// The token service's way to say no.
fn refusal(code: &str) -> String {
    format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"
    )
}

/// Its way to give credentials out.
fn assumed() -> String {
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>\
         <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser><Credentials>\
         <AccessKeyId>{ACCESS_KEY}</AccessKeyId><SecretAccessKey>{SECRET_KEY}</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    )
}

/// A run with the identity of a pod.
fn web_identity(world: &World) -> Command {
    let token = world.data.place("token");
    std::fs::write(&token, "a-token").unwrap();
    let mut command = world.keyless(&[]);
    command
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", token)
        .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    command
}

#[test]
fn a_service_that_says_no_is_believed_at_once() {
    let world = World::new();
    let container = Http::start(|_, _| (403, String::new()));
    let mut command = world.keyless(&[]);
    run(command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url()))
        .exits(1)
        .says(&["no usable credentials", "403"]);
    assert_eq!(container.requests().len(), 1);
    let tokens = Http::start(|_, _| (403, refusal("AccessDenied")));
    run(web_identity(&world).env("AWS_ENDPOINT_URL_STS", tokens.url()))
        .exits(1)
        .says(&["no usable credentials", "AccessDenied"]);
    assert_eq!(tokens.requests().len(), 1);
    world.config("[default]\ncredential_process = /nonexistent/program\n");
    run(&mut world.keyless(&[]))
        .exits(1)
        .says(&["no usable credentials", "127"]);
}

#[test]
fn a_token_that_the_server_takes_for_ended_is_fetched_anew() {
    let world = World::new();
    let ended = || Fault::new(Kind::Status(400, "ExpiredToken")).after(20);
    world.server.fault(ended().times(2));
    let service = Http::start(|_, _| (200, json("Success")));
    let mut command = world.keyless(&["--reads", "1"]);
    run(command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.url())).exits(0);
    // Keys that nobody gives out anew are told of.
    world.server.fault(ended());
    run(&mut world.command(&[]))
        .exits(1)
        .says(&["fetch new credentials"]);
}
