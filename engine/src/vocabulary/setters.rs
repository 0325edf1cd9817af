//! The one style of configurations: public fields to read, and a method of the same name to set each.

/// Gives a configuration a setter for each of its fields. Those of `optional` are set to `Some`.
///
/// It is public for the other crates of Crankcase, and no part of the interface.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($config:ident { $($field:ident: $kind:ty,)* } optional { $($option:ident: $some:ty,)* }) => {
        impl $config {
            $(
                #[doc = concat!("Sets the field [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )*
            $(
                #[doc = concat!("Sets the field [`", stringify!($option), "`](field@Self::", stringify!($option), ").")]
                #[must_use]
                pub fn $option(mut self, $option: $some) -> Self {
                    self.$option = Some($option);
                    self
                }
            )*
        }

        // No field is forgotten.
        const _: fn($config) = |config| {
            let $config { $($field: _,)* $($option: _,)* } = config;
        };
    };
}
