//! How the two programs are linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| {
        std::env::var(name).is_ok_and(|set| set.split(',').any(|part| part == value))
    };
    // Each part of the program begins at a page of its own: what the loader and the keeper write to then lies on two pages less,
    // and there is a keeper for every job. A linker that does not know this says so and goes on.
    if is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo:rustc-link-arg-bin=outlive-keeper=-Wl,-z,separate-loadable-segments");
    }
    // `./release` has seen which functions the plain verbs need, and lays them side by side: `outlive_sys::prefault` maps them together.
    println!("cargo:rerun-if-env-changed=OUTLIVE_ORDER");
    if let Ok(folder) = std::env::var("OUTLIVE_ORDER") {
        for program in ["outlive", "outlive-keeper"] {
            let order = format!("{folder}/{program}");
            println!("cargo:rerun-if-changed={order}");
            for argument in
                [format!("--symbol-ordering-file={order}"), "--no-warn-symbol-ordering".to_owned()]
            {
                println!("cargo:rustc-link-arg-bin={program}=-Wl,{argument}");
            }
        }
    }
    // At a fixed address: the loader would write the address of each constant into pages that every keeper then has for itself,
    // 240 KiB of an `outlive` that is its own keeper. A static program is given its address by the flags that make it static.
    let is_dynamic_glibc = is("CARGO_CFG_TARGET_ENV", "gnu") && !is("CARGO_CFG_TARGET_FEATURE", "crt-static");
    if is("CARGO_CFG_TARGET_OS", "linux") && is_dynamic_glibc {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
