#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fulmar_fuzz::streams::server_frames(data));
