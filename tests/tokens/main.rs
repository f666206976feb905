//! Prints how many tokens of the encoding o200k its input has.

use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    println!("{}", tiktoken_rs::o200k_base()?.encode_ordinary(&text).len());
    Ok(())
}
