//! `#[derive(Save)]`: implements `throng_types::Save` and `throng_types::Load`.
//!
//! A struct is its fields in their order. An enum is one byte, the variant's number by Rust's rule
//! for discriminants (`= 1` or `= CONST` sets it, otherwise one more than the last; behind a
//! `= CONST` the next must be set too), then the variant's fields.
//! Generated code only moves bytes; bounds are those of the fields' own types. A type parameter
//! that the type of a saved field names gets the bounds `Save` and `Load`.
//!
//! - `#[save(skip)]` on a field: it is not saved, and loads as its default.
//! - `#[save(skip)]` on a variant: its owner must not save it, which a debug build asserts; any
//!   other writes its number alone, which does not load.
//! - `#[save(check = path)]` on a type: what was loaded is refused if `path(&value)` is false.
//!
//! Fails to compile on unions, on numbers above 255, and on other words in `#[save(…)]`.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Lit, Path, Result, Variant,
    parse_quote,
};

/// Implements `Save` and `Load`; see the head of the crate.
#[proc_macro_derive(Save, attributes(save))]
pub fn derive_save(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    syn::parse(input)
        .and_then(expand)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand(mut input: DeriveInput) -> Result<TokenStream> {
    let mut saved_types = TokenStream::new();
    let (save, load) = match &input.data {
        Data::Struct(data) => {
            let parts = Parts::of(&quote!(Self), &data.fields, &mut saved_types)?;
            let (pattern, save) = (parts.pattern, parts.save);
            (quote!(let #pattern = self; #save), parts.value)
        }
        Data::Enum(data) => variants(data.variants.iter(), &mut saved_types)?,
        Data::Union(_) => return Err(Error::new_spanned(input, "a union cannot be saved")),
    };
    let check = Words::of(&input.attrs)?.check;
    let checked = check.map(|check| quote!(.filter(#check)));
    for parameter in input.generics.type_params_mut() {
        if mentions(saved_types.clone(), &parameter.ident) {
            parameter.bounds.push(parse_quote!(::throng_types::Save));
            parameter.bounds.push(parse_quote!(::throng_types::Load));
        }
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::throng_types::Save for #name #arguments #bounds {
            fn save(&self, out: &mut ::std::vec::Vec<u8>) {
                #save
            }
        }

        #[automatically_derived]
        impl #generics ::throng_types::Load for #name #arguments #bounds {
            fn load(from: &mut ::throng_types::Saved<'_>) -> ::std::option::Option<Self> {
                ::std::option::Option::Some(#load) #checked
            }
        }
    })
}

struct Parts {
    pattern: TokenStream,
    save: TokenStream,
    value: TokenStream,
}

impl Parts {
    /// Tuples have their fields' numbers for names, which Rust takes in patterns and values too.
    fn of(path: &TokenStream, fields: &Fields, saved_types: &mut TokenStream) -> Result<Self> {
        let (mut patterns, mut saves, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (field, member)) in fields.iter().zip(fields.members()).enumerate() {
            if Words::of(&field.attrs)?.skip {
                patterns.push(quote!(#member: _));
                values.push(quote!(#member: ::std::default::Default::default()));
            } else {
                let (part, saved_type) = (format_ident!("part_{at}"), &field.ty);
                saved_types.extend(quote!(#saved_type));
                patterns.push(quote!(#member: #part));
                saves.push(quote!(::throng_types::Save::save(#part, out);));
                values.push(quote!(#member: ::throng_types::Load::load(from)?));
            }
        }
        Ok(Self {
            pattern: quote!(#path { #(#patterns),* }),
            save: quote!(#(#saves)*),
            value: quote!(#path { #(#values),* }),
        })
    }
}

/// Tells whether a type parameter is named in types.
fn mentions(types: TokenStream, parameter: &Ident) -> bool {
    types.into_iter().any(|token| match token {
        TokenTree::Ident(name) => name == *parameter,
        TokenTree::Group(group) => mentions(group.stream(), parameter),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Returns the code that saves an enum, and the one that loads it.
fn variants<'v>(
    all: impl Iterator<Item = &'v Variant>,
    saved_types: &mut TokenStream,
) -> Result<(TokenStream, TokenStream)> {
    let (mut saves, mut loads) = (Vec::new(), Vec::new());
    let mut next = Some(0);
    for variant in all {
        let number = match &variant.discriminant {
            Some((_, number)) => {
                next = literal(number)?;
                quote!(#number)
            }
            None => {
                let unknown = || Error::new_spanned(variant, "its number must be given");
                let number: u8 = next.ok_or_else(unknown)?;
                quote!(#number)
            }
        };
        next = next.and_then(|number| number.checked_add(1));
        let name = &variant.ident;
        let path = quote!(Self::#name);
        if Words::of(&variant.attrs)?.skip {
            saves.push(quote!(#path { .. } => {
                debug_assert!(false, "it cannot be saved");
                out.push(#number);
            }));
            continue;
        }
        let Parts {
            pattern,
            save,
            value,
        } = Parts::of(&path, &variant.fields, saved_types)?;
        saves.push(quote!(#pattern => {
            out.push(#number);
            #save
        }));
        loads.push(quote!(#number => #value,));
    }
    let load = quote! {
        match <u8 as ::throng_types::Load>::load(from)? {
            #(#loads)*
            _ => return ::std::option::Option::None,
        }
    };
    Ok((quote!(match self { #(#saves)* }), load))
}

/// Returns a number that is written as one; `None` for the name of a constant.
fn literal(number: &Expr) -> Result<Option<u8>> {
    match number {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.base10_parse().map(Some),
        Expr::Path(_) => Ok(None),
        other => Err(Error::new_spanned(
            other,
            "a number or a constant is known here",
        )),
    }
}

#[derive(Default)]
struct Words {
    skip: bool,
    check: Option<Path>,
}

impl Words {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut words = Self::default();
        for attribute in attributes.iter().filter(|it| it.path().is_ident("save")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    words.skip = true;
                } else if meta.path.is_ident("check") {
                    words.check = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("`skip` and `check` are known"));
                }
                Ok(())
            })?;
        }
        Ok(words)
    }
}
