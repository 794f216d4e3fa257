//! The generated structures are those of the interface definition.

use std::path::Path;
use std::process::Command;

#[test]
fn the_structures_are_generated_from_the_definition() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let version = match Command::new("thrift").arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => {
            println!("skipped: thrift, Apache Thrift's compiler, cannot be started ({error})");
            return;
        }
    };
    if version != "Thrift version 0.17.0" {
        println!("skipped: this is {version:?}, and src/thrift2.rs is of version 0.17.0");
        return;
    }
    let output = Command::new(folder.join("idl/generate")).output();
    let output = output.expect("idl/generate is a script of sh");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let committed = std::fs::read(folder.join("src/thrift2.rs")).expect("src/thrift2.rs");
    assert!(
        output.stdout == committed,
        "src/thrift2.rs is not what idl/generate writes: run idl/generate >src/thrift2.rs"
    );
}
