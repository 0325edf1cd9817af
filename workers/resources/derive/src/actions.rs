//! The derive of `Actions`, which makes an action of each variant of an enum.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Result, Variant};

use crate::documented::summary;
use crate::snake::snake;

/// One action.
struct Act<'a> {
    variant: &'a Variant,
    name: String,
    doc: String,
}

impl<'a> Act<'a> {
    fn new(variant: &'a Variant) -> Result<Self> {
        if matches!(variant.fields, Fields::Unnamed(_)) {
            return Err(Error::new(variant.span(), "the arguments of an action have names"));
        }
        let (name, doc) = (snake(&variant.ident), summary(&variant.attrs));
        if doc.is_empty() {
            return Err(Error::new(variant.span(), "an action needs a documentation comment"));
        }
        Ok(Self { variant, name, doc })
    }

    /// Returns the arm that makes data of it.
    fn erase(&self) -> TokenStream {
        let (ident, name) = (&self.variant.ident, &self.name);
        let fields: Vec<_> = self.variant.fields.iter().flat_map(|field| &field.ident).collect();
        let names = fields.iter().map(|field| field.unraw().to_string());
        quote! {
            Self::#ident { #(#fields),* } => {
                ::crankcase_resources::Action::new(#name)
                    #(.with(#names, ::crankcase_resources::Field::give(#fields)))*
            }
        }
    }

    /// Returns the arm that makes it of data.
    fn read(&self) -> TokenStream {
        let (ident, name) = (&self.variant.ident, &self.name);
        let arguments = self.variant.fields.iter().flat_map(|field| &field.ident).map(|field| {
            let name = field.unraw().to_string();
            quote!(#field: action.argument(#name)?)
        });
        quote!(#name => ::core::result::Result::Ok(Self::#ident { #(#arguments),* }))
    }
}

/// Derives `Actions`: each variant is an action with its fields as arguments.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "actions are the variants of an enum"));
    };
    let name = &input.ident;
    let acts: Vec<_> = data.variants.iter().map(Act::new).collect::<Result<_>>()?;
    let names = acts.iter().map(|act| &act.name);
    let docs = acts.iter().map(|act| &act.doc);
    let (erase, read) = (acts.iter().map(Act::erase), acts.iter().map(Act::read));
    Ok(quote! {
        impl ::crankcase_resources::Actions for #name {
            fn types() -> ::std::vec::Vec<::crankcase_resources::dynamic::ActionType> {
                ::std::vec![#(::crankcase_resources::dynamic::ActionType::new(#names, #docs)),*]
            }

            fn erase(&self) -> ::crankcase_resources::Action {
                match self {
                    #(#erase)*
                }
            }

            fn read(
                action: &::crankcase_resources::Action,
            ) -> ::core::result::Result<Self, ::crankcase_resources::Wrong> {
                match action.name.as_str() {
                    #(#read,)*
                    _ => ::core::result::Result::Err(
                        ::crankcase_resources::derived::unknown_action::<Self>(action),
                    ),
                }
            }
        }
    })
}
