//! How the keeper is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Each part of the program begins at a page of its own: what the loader and the keeper write to then lies on two pages less,
    // and there is a keeper for every job. A linker that does not know this says so and goes on.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-link-arg-bin=outlive-keeper=-Wl,-z,separate-loadable-segments");
    }
}
