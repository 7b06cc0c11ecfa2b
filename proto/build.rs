//! Compiles the .proto files without a protoc on the machine.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files =
        ["thalweg/v1/session.proto", "thalweg/v1/job.proto", "thalweg/v1/cluster.proto", "thalweg/v1/internal.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), prost_encode(&descriptors))?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}

fn prost_encode(descriptors: &impl prost::Message) -> Vec<u8> {
    descriptors.encode_to_vec()
}
