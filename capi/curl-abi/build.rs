//! Compiles the functions with variable arguments.

fn main() {
    let files = ["src/formadd.c", "src/printf.c"];
    files.iter().for_each(|file| println!("cargo:rerun-if-changed={file}"));
    cc::Build::new().files(files).opt_level(2).warnings(true).compile("fulmar_curl_variadic");
}
