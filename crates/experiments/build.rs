//! Passes on which profile of cargo the program is built with.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

fn main() {
    // `PROFILE` is `release` for every profile that inherits from it. The folder has the profile's
    // own name: TARGET/NAME/build/PACKAGE/out.
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let profile = out.ancestors().nth(3).and_then(Path::file_name).and_then(OsStr::to_str);
    println!("cargo::rustc-env=FULMAR_PROFILE={}", profile.unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
}
