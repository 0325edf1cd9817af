//! The derives of `crankcase-resources`, which exports and documents them.
use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod actions;
mod choice;
mod documented;
mod params;
mod snake;

/// Derives `Params` for a struct, and a struct of the same fields that may not be known yet.
#[proc_macro_derive(Params, attributes(param))]
pub fn params(input: TokenStream) -> TokenStream {
    expand(params::derive(&parse_macro_input!(input as DeriveInput)))
}

/// Derives `Field` for an enum of words.
#[proc_macro_derive(Choice, attributes(choice))]
pub fn choice(input: TokenStream) -> TokenStream {
    expand(choice::derive(&parse_macro_input!(input as DeriveInput)))
}

/// Derives `Actions` for an enum of actions.
#[proc_macro_derive(Actions)]
pub fn actions(input: TokenStream) -> TokenStream {
    expand(actions::derive(&parse_macro_input!(input as DeriveInput)))
}

fn expand(derived: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}
