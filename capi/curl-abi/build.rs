//! Compiles the functions with variable arguments.

fn main() {
    println!("cargo:rerun-if-changed=src/printf.c");
    cc::Build::new().file("src/printf.c").opt_level(2).warnings(true).compile("fulmar_curl_printf");
}
