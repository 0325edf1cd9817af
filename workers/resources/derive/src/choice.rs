//! The derive of `Choice`, which makes an enum a parameter that is one of some words.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Result};

use crate::snake::snake;

/// Each variant is a word: its name in snake case, or the one that `#[choice("word")]` gives.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "a choice is an enum"));
    };
    let name = &input.ident;
    let (mut words, mut variants) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.span(), "a choice is a word, without fields"));
        }
        let mut word = snake(&variant.ident);
        for attribute in variant.attrs.iter().filter(|it| it.path().is_ident("choice")) {
            word = attribute.parse_args::<LitStr>()?.value();
        }
        words.push(word);
        variants.push(&variant.ident);
    }
    Ok(quote! {
        impl ::crankcase_resources::Field for #name {
            fn ty() -> ::crankcase_resources::Type {
                ::crankcase_resources::Type::choice(&[#(#words),*])
            }

            fn take(
                value: &::crankcase_resources::derived::Value,
            ) -> ::core::result::Result<Self, ::crankcase_resources::Wrong> {
                match <Self as ::crankcase_resources::Field>::ty().word(value)? {
                    #(#words => ::core::result::Result::Ok(Self::#variants),)*
                    _ => ::core::unreachable!("the type has these words alone"),
                }
            }

            fn give(&self) -> ::crankcase_resources::derived::Value {
                let word = match self {
                    #(Self::#variants => #words,)*
                };
                word.into()
            }
        }
    })
}
