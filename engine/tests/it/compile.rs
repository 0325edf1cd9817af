//! What does not compile, and what the compiler says of it.

#[test]
fn mistakes_are_compile_errors_that_name_their_cause() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
