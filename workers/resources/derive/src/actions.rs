use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Result};

use crate::choice::snake;
use crate::documented::summary;

/// Each variant is an action, called by its name in snake case.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "actions are an enum"));
    };
    let name = &input.ident;
    let mut names = Vec::new();
    for variant in &data.variants {
        let doc = summary(&variant.attrs);
        if doc.is_empty() {
            return Err(Error::new(variant.span(), "an action needs a documentation comment"));
        }
        let name = snake(&variant.ident);
        names.push(quote!((#name, #doc)));
    }
    Ok(quote! {
        impl ::crankcase_resources::Actions for #name {
            const NAMES: &'static [(&'static str, &'static str)] = &[#(#names),*];
        }
    })
}
