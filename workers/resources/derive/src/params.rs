//! The derive of `Params`: the fields of a struct become the parameters of a config or a state.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, Ident, LitBool, LitStr, Result, Type};

use crate::documented::summary;

/// One parameter.
struct Param<'a> {
    ident: &'a Ident,
    name: String,
    ty: &'a Type,
    doc: String,
    default: Option<Expr>,
    unit: Option<LitStr>,
    is_declared: bool,
    is_compared: bool,
    /// Whether it is no parameter but parameters of its own.
    is_flat: bool,
}

impl<'a> Param<'a> {
    fn new(field: &'a Field) -> Result<Self> {
        let ident = field.ident.as_ref().expect("fields of a struct with names have names");
        let name = ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
        let doc = summary(&field.attrs);
        let mut param = Self {
            ident,
            name,
            ty: &field.ty,
            doc,
            default: None,
            unit: None,
            is_declared: false,
            is_compared: true,
            is_flat: false,
        };
        for attribute in field.attrs.iter().filter(|it| it.path().is_ident("param")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("default") {
                    param.default = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("unit") {
                    param.unit = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("declared") {
                    param.is_declared = true;
                } else if meta.path.is_ident("flatten") {
                    param.is_flat = true;
                } else if meta.path.is_ident("compare") {
                    param.is_compared = meta.value()?.parse::<LitBool>()?.value;
                } else if meta.path.is_ident("name") {
                    param.name = meta.value()?.parse::<LitStr>()?.value();
                } else {
                    let options = "there are default, unit, declared, compare, flatten and name";
                    return Err(meta.error(options));
                }
                Ok(())
            })?;
        }
        if param.doc.is_empty() {
            return Err(Error::new(field.span(), "a parameter needs a documentation comment"));
        }
        Ok(param)
    }

    /// Returns whether a constructor must be given it, as far as can be seen in the source.
    fn is_required(&self) -> bool {
        let is_option = match self.ty {
            Type::Path(path) => path.path.segments.last().is_some_and(|it| it.ident == "Option"),
            _ => false,
        };
        self.default.is_none() && !is_option && !self.is_flat
    }

    /// Returns the type of what is known of it.
    fn partial(&self) -> TokenStream {
        let ty = self.ty;
        if self.is_flat {
            return quote!(<#ty as ::crankcase_resources::Params>::Partial);
        }
        quote!(::crankcase_resources::Partial<#ty>)
    }

    /// Returns what puts it into a half when it is known.
    fn given(&self) -> TokenStream {
        let ident = self.ident;
        if self.is_flat {
            return quote!(#ident: whole.#ident.into());
        }
        quote!(#ident: ::crankcase_resources::Partial::Given(whole.#ident))
    }

    fn read(&self) -> TokenStream {
        let Self { ident, name, ty, .. } = self;
        if self.is_flat {
            return quote!(#ident: <#ty as ::crankcase_resources::Params>::read(reader));
        }
        quote!(#ident: reader.field(#name))
    }

    fn whole(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        if self.is_flat {
            return quote!(#ident: <#ty as ::crankcase_resources::Params>::whole(partial.#ident)?);
        }
        quote!(#ident: partial.#ident.given()?)
    }

    fn write(&self) -> TokenStream {
        let Self { ident, name, ty, .. } = self;
        if self.is_flat {
            return quote!(<#ty as ::crankcase_resources::Params>::write(&partial.#ident, writer););
        }
        quote!(writer.field(#name, &partial.#ident);)
    }

    fn is_same(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        if self.is_flat {
            return quote! {
                <#ty as ::crankcase_resources::Params>::is_same(&self.#ident, &other.#ident)
            };
        }
        quote!(self.#ident == other.#ident)
    }

    /// Returns its rows of the table.
    fn rows(&self) -> TokenStream {
        let Self { name, ty, doc, is_declared, .. } = self;
        if self.is_flat {
            return quote! {
                parameters.extend(<#ty as ::crankcase_resources::Params>::table().clone().parameters);
            };
        }
        let default = self.default_value();
        let unit = self.unit.as_ref().map_or(quote!(None), |unit| quote!(Some(#unit.into())));
        quote! {
            parameters.push(
                ::crankcase_resources::dynamic::Parameter::of::<#ty>(#name, #doc)
                    .with(#default, #unit, #is_declared),
            );
        }
    }

    /// Returns its default, as an option of a value.
    fn default_value(&self) -> TokenStream {
        match &self.default {
            Some(default) => quote! {
                ::core::option::Option::Some(::crankcase_resources::derived::json!(#default))
            },
            None => quote!(::core::option::Option::None),
        }
    }

    /// Returns what a constructor sets it to that is not given it.
    fn absent(&self) -> TokenStream {
        let (ty, default) = (self.ty, self.default_value());
        if self.is_flat {
            return quote!(<#ty>::new());
        }
        quote!(::crankcase_resources::derived::absent::<#ty>(#default))
    }
}

/// Derives `Params`, the struct of halves, and a constructor that takes what is required.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => fields.named.iter().collect(),
            Fields::Unit => Vec::new(),
            Fields::Unnamed(_) => return Err(unnamed(input.span())),
        },
        _ => return Err(unnamed(input.span())),
    };
    let params: Vec<_> = fields.into_iter().map(Param::new).collect::<Result<_>>()?;
    let (name, visibility) = (&input.ident, &input.vis);
    let (partial, doc) = (format_ident!("{name}Partial"), summary(&input.attrs));
    let half_doc = format!("A [`{name}`] of which not everything is known yet.");
    let idents: Vec<_> = params.iter().map(|param| param.ident).collect();
    let docs: Vec<_> = params.iter().map(|param| &param.doc).collect();
    let halves = params.iter().map(Param::partial);
    let rows = params.iter().map(Param::rows);
    let (reads, wholes) = (params.iter().map(Param::read), params.iter().map(Param::whole));
    let writes = params.iter().map(Param::write);
    let into_halves = params.iter().map(Param::given);
    let same = params.iter().filter(|param| param.is_compared).map(Param::is_same);
    let new = constructor(input, &params);
    Ok(quote! {
        #[doc = #half_doc]
        #[derive(Debug, Clone)]
        #visibility struct #partial {
            #(#[doc = #docs] pub #idents: #halves,)*
        }

        #new

        impl ::core::convert::From<#name> for #partial {
            fn from(whole: #name) -> Self {
                Self { #(#into_halves,)* }
            }
        }

        impl ::crankcase_resources::Params for #name {
            type Partial = #partial;

            fn table() -> &'static ::crankcase_resources::dynamic::Table {
                static TABLE: ::std::sync::OnceLock<::crankcase_resources::dynamic::Table> =
                    ::std::sync::OnceLock::new();
                TABLE.get_or_init(|| {
                    let mut parameters = ::std::vec::Vec::new();
                    #(#rows)*
                    ::crankcase_resources::dynamic::Table::new(#doc, parameters)
                })
            }

            fn read(reader: &mut ::crankcase_resources::dynamic::Reader<'_>) -> Self::Partial {
                #partial { #(#reads,)* }
            }

            fn whole(partial: Self::Partial) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(Self { #(#wholes,)* })
            }

            fn write(partial: &Self::Partial, writer: &mut ::crankcase_resources::dynamic::Writer) {
                #(#writes)*
            }

            fn is_same(&self, other: &Self) -> bool {
                true #(&& #same)*
            }
        }
    })
}

fn unnamed(span: Span) -> Error {
    Error::new(span, "parameters are the fields of a struct with names")
}

fn constructor(input: &DeriveInput, params: &[Param<'_>]) -> TokenStream {
    let name = &input.ident;
    let doc = format!("Returns a [`{name}`] with defaults for all that is not required.");
    let (required, absent): (Vec<_>, Vec<_>) = params.iter().partition(|param| param.is_required());
    let arguments = required.iter().map(|param| {
        let (ident, ty) = (param.ident, param.ty);
        quote!(#ident: #ty)
    });
    let given = required.iter().map(|param| param.ident);
    let others = absent.iter().map(|param| param.ident);
    let values = absent.iter().map(|param| param.absent());
    quote! {
        impl #name {
            #[doc = #doc]
            pub fn new(#(#arguments),*) -> Self {
                Self { #(#given,)* #(#others: #values,)* }
            }
        }
    }
}
