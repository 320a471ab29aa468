//! `curl-config`, which configure scripts call, beside that of the installed libcurl.

use std::fs;
use std::process::Command;

use fulmar_tests::process::text;

use super::libraries;

/// The exit code and the output of a `curl-config`.
fn printed(program: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program).args(arguments).output().expect("it is installed");
    (output.status.code(), text(&output.stdout))
}

/// The `curl-config` beside our library.
fn ours() -> String {
    let program = libraries().with_file_name("bin").join("curl-config");
    program.into_os_string().into_string().expect("a path in UTF-8")
}

#[test]
fn curl_config_responds_as_that_of_libcurl() {
    let config = ours();
    let cases: [&[&str]; 10] = [
        &["--version"],
        &["--vernum"],
        &["--cflags", "--ca", "--cc"],
        &["--built-shared", "--ssl-backends"],
        &["--checkfor", "7.88.1"],
        &["--checkfor", "7.9.8"],
        &["--checkfor", "7.88.1-DEV"],
        &["--checkfor", "7.88.2"],
        &["--checkfor", "7.90.0"],
        &["--checkfor", "8.0.0"],
    ];
    for arguments in cases {
        assert_eq!(printed(&config, arguments), printed("curl-config", arguments), "{arguments:?}");
    }
    assert_eq!(printed(&config, &["--checkfor", "7.88"]), (Some(0), String::new()));
    assert_eq!(printed(&config, &["--none"]).0, Some(1));
    assert_eq!(printed(&config, &[]).0, Some(1));
}

#[test]
fn curl_config_names_the_folder_of_our_library() {
    let config = ours();
    let folder = libraries().to_str().expect("a path in UTF-8");
    let flags = format!("-L{folder} -lcurl\n");
    assert_eq!(printed(&config, &["--libs"]), (Some(0), flags));
    assert!(libraries().join("libcurl.so").exists());

    let fields = fs::read_to_string(libraries().join("libcurl.pc")).expect("made with the library");
    for (option, field) in
        [("--protocols", "supported_protocols"), ("--features", "supported_features")]
    {
        let lines = printed(&config, &[option]).1;
        assert!(lines.lines().count() >= 5, "{lines}");
        let words = lines.lines().collect::<Vec<_>>().join(" ");
        assert!(fields.contains(&format!("{field}=\"{words}\"\n")), "{fields}");
    }
}
